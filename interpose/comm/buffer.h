// Device and host memory that frees itself through the device table.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "common/result.h"
#include "kernels/device_table.h"

namespace cinch {

// How many captures may use a communicator while one is under way; CUDA numbers them in order, and
// what is kept of older ones is dropped.
constexpr size_t kMaxOpenCaptures = 64;

// Allocations in its scope do not break another thread's graph capture.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const DeviceTable& device) : device_(device) {
    device_.exchangeCaptureMode(&mode_);
  }
  ~RelaxedCapture() { device_.exchangeCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;

 private:
  const DeviceTable& device_;
  int mode_ = 2;  // cudaStreamCaptureModeRelaxed
};

// Makes `device` current and puts back what was, so that the caller finds the device it left.
class CurrentDevice {
 public:
  CurrentDevice(const DeviceTable& table, int device) : table_(table) {
    if (table_.getDevice(&before_) == 0 && before_ != device)
      changed_ = table_.setDevice(device) == 0;
  }
  ~CurrentDevice() {
    if (changed_) table_.setDevice(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;

 private:
  const DeviceTable& table_;
  int before_ = 0;
  bool changed_ = false;
};

Error deviceError(const DeviceTable& device, const char* what, int error);

// Returns an Error naming `what` from the enclosing function if the device call fails.
#define CINCH_TRY_DEVICE(device, call, what)                                                       \
  do {                                                                                             \
    if (const int error_ = (call); error_ != 0) return ::cinch::deviceError(device, what, error_); \
  } while (0)

// Owns memory of the current device, or host memory that the device can reach. Movable.
class Buffer {
 public:
  enum class Where { device, host };

  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer();

  // Uninitialised memory; no bytes is legal and owns nothing.
  static Result<Buffer> allocate(const DeviceTable& device, size_t nBytes, Where where);

  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }
  size_t bytes() const { return nBytes_; }
  explicit operator bool() const { return memory_ != nullptr; }
  Where where() const { return where_; }

 private:
  void swap(Buffer& other) {
    std::swap(device_, other.device_);
    std::swap(memory_, other.memory_);
    std::swap(nBytes_, other.nBytes_);
    std::swap(where_, other.where_);
  }

  const DeviceTable* device_ = nullptr;
  void* memory_ = nullptr;
  size_t nBytes_ = 0;
  Where where_ = Where::device;
};

// An event, without timing unless it is made so; owns it. Movable.
class Event {
 public:
  Event() = default;
  Event(Event&& other) noexcept { swap(other); }
  Event& operator=(Event&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Event();

  static Result<Event> create(const DeviceTable& device);
  static Result<Event> createTimed(const DeviceTable& device);
  Result<void> record(void* stream);
  // Makes `stream` wait for what was recorded last.
  Result<void> orderBefore(void* stream) const;
  // The same two as nodes of the graph that `stream` is captured into: each of its launches
  // records, and waits for what was recorded last before it, inside or outside of graphs.
  Result<void> recordInGraph(void* stream);
  Result<void> orderBeforeInGraph(void* stream) const;
  // True once what was recorded last is done, or if there is no event; false also for one that
  // failed.
  bool done() const;
  // Between what was recorded last, both timed and done; none where the device cannot say.
  std::optional<uint64_t> nanosecondsSince(const Event& start) const;
  explicit operator bool() const { return event_ != nullptr; }
  void* get() const { return event_; }

 private:
  void swap(Event& other) {
    std::swap(device_, other.device_);
    std::swap(event_, other.event_);
  }

  const DeviceTable* device_ = nullptr;
  void* event_ = nullptr;
};

}  // namespace cinch
