#include "interpose/comm/buffer.h"

#include <algorithm>

namespace cinch {

Error deviceError(const DeviceTable& device, const char* what, int error) {
  return errorf(Status::cudaError, "%s: %s", what, device.errorName(error));
}

Result<Buffer> Buffer::allocate(const DeviceTable& device, size_t nBytes, Where where) {
  Buffer buffer;
  if (nBytes == 0) return buffer;
  const int error = where == Where::host ? device.allocateHost(&buffer.memory_, nBytes)
                                         : device.allocate(&buffer.memory_, nBytes);
  if (error != 0)
    return errorf(Status::cudaError,
                  "cannot allocate %zu bytes of %s memory: %s; leave more of it free", nBytes,
                  where == Where::host ? "pinned host" : "device", device.errorName(error));
  buffer.device_ = &device;
  buffer.nBytes_ = nBytes;
  buffer.where_ = where;
  return buffer;
}

Buffer::~Buffer() {
  if (memory_ == nullptr) return;
  const RelaxedCapture relaxed(*device_);
  if (where_ == Where::host)
    device_->releaseHost(memory_);
  else
    device_->release(memory_);
}

Result<Event> Event::create(const DeviceTable& device) {
  Event event;
  CINCH_TRY_DEVICE(device, device.eventCreate(&event.event_), "cannot create an event");
  event.device_ = &device;
  return event;
}

Result<Event> Event::createTimed(const DeviceTable& device) {
  Event event;
  CINCH_TRY_DEVICE(device, device.timedEventCreate(&event.event_), "cannot create an event");
  event.device_ = &device;
  return event;
}

Result<void> Event::record(void* stream) {
  CINCH_TRY_DEVICE(*device_, device_->eventRecord(event_, stream), "cannot record an event");
  return {};
}

Result<void> Event::orderBefore(void* stream) const {
  CINCH_TRY_DEVICE(*device_, device_->streamWaitEvent(stream, event_), "cannot wait for an event");
  return {};
}

Result<void> Event::recordInGraph(void* stream) {
  CINCH_TRY_DEVICE(*device_, device_->eventRecordInGraph(event_, stream),
                   "cannot record an event in a graph");
  return {};
}

Result<void> Event::orderBeforeInGraph(void* stream) const {
  CINCH_TRY_DEVICE(*device_, device_->streamWaitEventInGraph(stream, event_),
                   "cannot wait for an event in a graph");
  return {};
}

bool Event::done() const {
  if (event_ == nullptr) return true;
  const RelaxedCapture relaxed(*device_);
  return device_->eventQuery(event_) == 0;
}

std::optional<uint64_t> Event::nanosecondsSince(const Event& start) const {
  constexpr float kNanosecondsInMillisecond = 1e6f;
  float milliseconds = 0;
  const RelaxedCapture relaxed(*device_);
  if (device_->eventElapsed(&milliseconds, start.event_, event_) != 0) return std::nullopt;
  return static_cast<uint64_t>(std::max(milliseconds, 0.0f) * kNanosecondsInMillisecond);
}

Event::~Event() {
  if (event_ != nullptr) device_->eventDestroy(event_);
}

}  // namespace cinch
