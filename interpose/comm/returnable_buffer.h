// Device memory that may be given back while the device works, and while the process has
// communicators: other memory waits for all of that (memory_reserve.h).
#pragma once

#include <cstddef>
#include <utility>

#include "common/result.h"
#include "kernels/device_table.h"

namespace cinch {

// A stream of Cinch's own, which nothing of the program's waits for. What is on it is done also
// when it is gone.
class SideStream {
 public:
  // On the current device; the capture mode must be relaxed.
  static Result<SideStream> create(const DeviceTable& device);
  SideStream(SideStream&& other) noexcept
      : device_(other.device_), stream_(std::exchange(other.stream_, nullptr)) {}
  ~SideStream();
  void* get() const { return stream_; }

 private:
  SideStream(const DeviceTable& device, void* stream) : device_(&device), stream_(stream) {}

  const DeviceTable* device_;
  void* stream_;
};

// Movable. Whoever drops it without a word leaves its memory allocated, which is right where
// something may use it for ever.
class ReturnableBuffer {
 public:
  ReturnableBuffer() = default;
  ReturnableBuffer(ReturnableBuffer&& other) noexcept { swap(other); }
  ReturnableBuffer& operator=(ReturnableBuffer&& other) noexcept {
    swap(other);
    return *this;
  }

  // Uninitialised memory of the current device, for any stream at once; no bytes is legal and owns
  // nothing. Not in a graph's capture; the capture mode must be relaxed.
  static Result<ReturnableBuffer> allocate(const DeviceTable& device, size_t nBytes);
  // What is on `stream` may still use it, and nothing else. Nothing is waited for.
  void giveBack(void* stream);
  // Nothing uses it.
  void giveBackUnused();

  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }
  size_t bytes() const { return nBytes_; }
  explicit operator bool() const { return memory_ != nullptr; }

 private:
  void swap(ReturnableBuffer& other) {
    std::swap(device_, other.device_);
    std::swap(memory_, other.memory_);
    std::swap(nBytes_, other.nBytes_);
  }

  const DeviceTable* device_ = nullptr;
  void* memory_ = nullptr;
  size_t nBytes_ = 0;
};

}  // namespace cinch
