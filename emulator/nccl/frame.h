// The bootstrap's wire format: frames of a fixed header and a payload, both ends on hosts of the
// same byte order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "emulator/nccl/address.h"

namespace cinch::emulator {

enum class FrameKind : uint32_t {
  hello = 1,    // rank to root: FrameHello
  data = 2,     // rank to root: its own; root to rank: everybody's
  failure = 3,  // root to rank: why there will be no communicator, as text
};

struct FrameHeader {
  uint32_t magic;
  FrameKind kind;
  uint64_t nBytes;  // of the payload
};

struct FrameHello {
  uint64_t nonce;
  int32_t rank;
  int32_t nRanks;
  int32_t pid;
  char host[64];
};

struct Frame {
  FrameKind kind;
  std::vector<char> payload;
};

// What every rank said in one exchange, in the order of the ranks.
using Shares = std::vector<std::vector<char>>;

// The payload of a frame that holds all shares, and back; nothing where the bytes are not such.
std::vector<char> joinShares(const Shares& shares);
std::optional<Shares> splitShares(const std::vector<char>& bytes);

// Collects frames from a socket's bytes.
class FrameReader {
 public:
  enum class Outcome { waiting, closed, malformed };

  // Reads what is there, without waiting.
  Outcome readFrom(int fd);
  // The next complete frame, if there is one.
  std::optional<Frame> take();

 private:
  bool headerIsSane() const;
  FrameHeader header() const;

  std::vector<char> bytes_;
};

// Writes a frame, waiting while the socket is full, until `deadline`.
Result<void> writeFrame(int fd, FrameKind kind, const void* payload, size_t nBytes,
                        Clock::time_point deadline);

}  // namespace cinch::emulator
