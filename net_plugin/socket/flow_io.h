// The two halves of a flow's byte stream: records with payloads, written and read in whatever
// pieces the kernel takes and gives. Neither knows what the records mean, nor waits.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/network/socket.h"
#include "net_plugin/socket/zero_copy.h"
#include "net_plugin/wire/record.h"

namespace cinch::net {

enum class Io { moved, blocked };

// Writes records, and chunks: records with a payload that lies elsewhere. All that waits goes to
// the kernel in one call, which is what makes long messages fast.
class FlowWriter {
 public:
  static constexpr size_t kMostChunks = 16;

  explicit FlowWriter(const Socket& socket) : socket_(socket) {}

  bool isIdle() const { return done_ == records_.size() && chunk_ == chunks_.size(); }
  // Requires isIdle(). Takes the contents of `records`, and leaves it empty.
  void begin(std::vector<uint8_t>& records);
  // Requires that nothing was written since begin(), and fewer than kMostChunks.
  void addChunk(const std::array<uint8_t, kRecordBytes>& record, uint32_t payloadBytes);
  // Changes a chunk's record. Requires that nothing was written since begin().
  void replaceRecord(size_t chunk, const std::array<uint8_t, kRecordBytes>& record);
  // Drops a chunk; false where its record has begun to go out. Those after it move up.
  bool takeBack(size_t chunk);
  // The chunks before this one are with the kernel.
  size_t currentChunk() const { return chunk_; }
  // The value of written() when it was, or will be, through.
  uint64_t endOf(size_t chunk) const;
  // One write. `payloads`: where those of the chunks begin, from the current one on.
  Result<Io> write(std::span<const char* const> payloads);
  // From here on long payloads go out without a copy, as long as that saves one.
  void enableZeroCopy() { zeroCopy_.enable(socket_); }
  // The kernel may still read payloads that were written, as far as was heard. Any thread may ask.
  bool holdsPayloads() const { return zeroCopy_.holdsPages(); }
  void listen() { zeroCopy_.listen(socket_); }
  bool copies() const { return !zeroCopy_.isOn(); }
  // Bytes that the kernel took, ever; and those of them that the peer has not acknowledged.
  uint64_t written() const { return written_.load(std::memory_order_relaxed); }
  uint64_t queued() const;
  // As TCP smooths it; 0 where it is not known.
  Clock::duration roundTrip() const;

 private:
  struct Part {
    size_t recordsEnd = 0;  // of a chunk's record and those before it
    uint32_t payloadBytes = 0;
  };
  size_t gather(std::span<const char* const> payloads, iovec* pieces);
  ssize_t push(std::span<const char* const> payloads);
  ssize_t pushPayload(const char* payload);
  void advance(size_t nBytes);

  const Socket& socket_;
  ZeroCopy zeroCopy_;
  std::vector<uint8_t> records_;
  std::vector<Part> chunks_;
  uint64_t start_ = 0;                // written() at begin()
  size_t done_ = 0;                   // of records_
  size_t chunk_ = 0;                  // whose payload is next
  uint32_t payloadDone_ = 0;          // of that
  std::atomic<uint64_t> written_{0};  // looked at by others while somebody writes
};

// Reads records; payloads go where the caller says, as they come.
class FlowReader {
 public:
  explicit FlowReader(const Socket& socket) : socket_(socket) {}

  // The next record, once the payload of the one before is through. What is no record is an error.
  Result<std::optional<Record>> next();
  uint32_t payloadLeft() const { return payloadLeft_; }
  // Moves what was read ahead of the payload to `payload` (null: drops it); returns how much.
  uint32_t takeStaged(char* payload);
  // One read: the payload's rest to `payload` (null: drops it), and what follows into stage.
  Result<Io> read(char* payload);
  // The last read took all that the kernel had.
  bool isDrained() const { return isDrained_; }
  uint64_t received() const { return received_.load(std::memory_order_relaxed); }

 private:
  Result<Io> readDropping();
  Result<Io> readAhead();
  Result<Io> readPayload(char* payload);
  Result<Io> judge(ssize_t got);

  const Socket& socket_;
  std::array<uint8_t, 4096> stage_;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint32_t payloadLeft_ = 0;
  bool isDrained_ = false;
  std::atomic<uint64_t> received_{0};  // looked at by others while somebody reads
};

}  // namespace cinch::net
