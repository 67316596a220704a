// The scratch memory that all compressed calls of a communicator share, one call after the other.
#pragma once

#include <vector>

#include "interpose/comm/buffer.h"

namespace cinch {

class Workspace {
 public:
  // Makes both buffers at least `nBytes` large. Not on the call path, never in a capture.
  Result<void> reserve(const DeviceTable& device, size_t nBytes);

  // Encoded shards to send, later the gathered ones; and those received from the peers.
  uint8_t* outgoing() const { return outgoing_.as<uint8_t>(); }
  uint8_t* incoming() const { return incoming_.as<uint8_t>(); }

  // A call on `stream` begins: waits, on the stream, for the last call. Also where the stream's
  // handle is that of the last call: CUDA reuses handles, and cudaStreamPerThread is many streams.
  Result<void> begin(void* stream);
  // All work of the call has been enqueued on `stream`.
  Result<void> end(void* stream);

  // Blocks until the last call's work is done.
  Result<void> drain(const DeviceTable& device);
  // Gives up all memory without freeing it.
  void leak();

 private:
  Buffer outgoing_, incoming_;
  std::vector<Buffer> retired_;  // outgrown, but work that uses them may still be queued
  Event lastDone_;
  bool used_ = false;
};

}  // namespace cinch
