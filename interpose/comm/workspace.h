// The scratch memory that all compressed calls of a communicator share, one wave of them after the
// other, on streams and in graphs.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "interpose/comm/buffer.h"

namespace cinch {

class Workspace {
 public:
  // Makes both buffers at least `nBytes` large, and the one for exact results `nExactBytes`. Not on
  // the call path, never in a capture.
  Result<void> reserve(const DeviceTable& device, size_t nBytes, size_t nExactBytes = 0);
  // All ranks have reserved `nBytes`.
  void agree(size_t nBytes) { capacity_ = std::max(capacity_, nBytes); }
  // What all ranks have.
  size_t capacity() const { return capacity_; }

  uint64_t bytes() const { return outgoing_.bytes() + incoming_.bytes() + exact_.bytes(); }

  // Encoded shards to send, later the gathered ones; and those received from the peers.
  uint8_t* outgoing() const { return outgoing_.as<uint8_t>(); }
  uint8_t* incoming() const { return incoming_.as<uint8_t>(); }
  // The exact result of an examined call, which has its wave for itself.
  void* exact() const { return exact_.as<void>(); }

  // A call on `stream` begins: waits, on the stream, for the last wave. Also where the stream's
  // handle is that of the last call: CUDA reuses handles, and cudaStreamPerThread is many streams.
  // `captureId` is that of the capture the stream is in, 0 for none.
  Result<void> begin(void* stream, uint64_t captureId);
  // All work of the call has been enqueued on `stream`. All calls of a wave begin before one ends;
  // what follows the last one to end follows them all.
  Result<void> end(void* stream, uint64_t captureId);

  // Whether the last eager call's work is done.
  bool isDone() const { return !used_ || lastDone_.done(); }
  // A call has begun and will never end: something that was enqueued may still write here.
  bool isStranded() const { return nRunning_ > 0; }
  // Adds all memory to `buffers`; the workspace is of no more use. The event is done when the last
  // call is.
  Event giveUp(std::vector<Buffer>& buffers);

 private:
  // What follows the last call to end in the capture, or outside of captures.
  Result<Event*> joinedIn(uint64_t captureId);
  Result<void> joinStream(void* stream, Event& joined);

  const DeviceTable* device_ = nullptr;

  Result<void> enlarge(Buffer& buffer, size_t nBytes);

  Buffer outgoing_, incoming_, exact_;
  std::vector<Buffer> retired_;  // outgrown, but queued work and graphs may still use them
  size_t capacity_ = 0;
  Event lastDone_;  // after the last wave
  Event joined_;    // after the last eager call to end, for other streams of its wave
  std::map<uint64_t, Event> captured_;  // the same for each capture's own calls
  void* endedOn_ = nullptr;
  bool anyEnded_ = false;  // of the running wave
  bool used_ = false;
  int nRunning_ = 0;  // calls that have begun and not ended
};

}  // namespace cinch
