// The two halves of a flow's byte stream: records with payloads, written and read in whatever
// pieces the kernel takes and gives. Neither knows what the records mean, nor waits.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/network/socket.h"
#include "net_plugin/socket/zero_copy.h"
#include "net_plugin/wire/record.h"

namespace cinch::net {

enum class Io { moved, blocked };

// Writes records, the last of which may have a payload that lies elsewhere.
class FlowWriter {
 public:
  explicit FlowWriter(const Socket& socket) : socket_(socket) {}

  bool isIdle() const { return done_ == records_.size() && payloadLeft_ == 0; }
  // Requires isIdle(). Takes the contents of `records`, and leaves it empty.
  void begin(std::vector<uint8_t>& records, uint32_t payloadBytes);
  uint32_t payloadLeft() const { return payloadLeft_; }
  // Changes the last record, of which nothing must have been written.
  void replaceLast(const std::array<uint8_t, kRecordBytes>& record);
  // One write. `payload`: where the bytes that are left of it are.
  Result<Io> write(const char* payload);
  // From here on long payloads go out without a copy, as long as that saves one.
  void enableZeroCopy() { zeroCopy_.enable(socket_); }
  // The kernel may still read payloads that were written, as far as was heard. Any thread may ask.
  bool holdsPayloads() const { return zeroCopy_.holdsPages(); }
  void listen() { zeroCopy_.listen(socket_); }
  // Bytes that the kernel took, ever; and those of them that the peer has not acknowledged.
  uint64_t written() const { return written_.load(std::memory_order_relaxed); }
  uint64_t queued() const;
  // As TCP smooths it; 0 where it is not known.
  Clock::duration roundTrip() const;

 private:
  ssize_t push(const char* payload);
  ssize_t pushPayload(const char* payload);

  const Socket& socket_;
  ZeroCopy zeroCopy_;
  std::vector<uint8_t> records_;
  size_t done_ = 0;
  uint32_t payloadLeft_ = 0;
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
  uint64_t received() const { return received_.load(std::memory_order_relaxed); }

 private:
  Result<Io> readDropping();
  Result<Io> judge(ssize_t got);

  const Socket& socket_;
  std::array<uint8_t, 4096> stage_;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint32_t payloadLeft_ = 0;
  std::atomic<uint64_t> received_{0};  // looked at by others while somebody reads
};

}  // namespace cinch::net
