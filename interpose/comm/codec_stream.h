// The stream beside the caller's on which the codec works at one chunk of a call while another is
// on the wire, and the events that join the two. One for all calls of a communicator, which follow
// one another (comm/workspace.h).
#pragma once

#include <array>

#include "interpose/comm/buffer.h"

namespace cinch {

class CodecStream {
 public:
  CodecStream() = default;
  ~CodecStream();
  CodecStream(const CodecStream&) = delete;

  // On the current device, once. Not on the call path; the capture mode must be relaxed.
  Result<void> allocate(const DeviceTable& device);
  explicit operator bool() const { return stream_ != nullptr; }
  void* get() const { return stream_; }

  // What comes on `to` from here on follows what is on `from`.
  Result<void> order(void* from, void* to);
  // The same in two steps, between which `from` gets more work: note() of a chunk's message on
  // `from`, then await() on `to`. No more than two chunks of a kind may be noted at a time.
  enum class Message { exchanged, gathered };
  Result<void> note(Message message, uint32_t chunk, void* from);
  Result<void> await(Message message, uint32_t chunk, void* to) const;

 private:
  static constexpr uint32_t kNoted = 2;
  static size_t indexOf(Message message, uint32_t chunk) {
    return static_cast<size_t>(message) * kNoted + chunk % kNoted;
  }

  const DeviceTable* device_ = nullptr;
  void* stream_ = nullptr;
  Event ordered_;
  std::array<Event, 2 * kNoted> noted_;
};

}  // namespace cinch
