// cudaEvent*.

#include "emulator/cudart/api.h"
#include "emulator/cudart/capture_rules.h"
#include "emulator/cudart/device.h"
#include "emulator/cudart/event.h"
#include "emulator/cudart/stream.h"

namespace cinch::cudart {
namespace {

constexpr unsigned int kEventFlags =
    cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;

// Runs `body(event)`, where `event` is a shared pointer, on a live event.
template <class Body>
cudaError_t onEvent(cudaEvent_t handle, Body&& body) {
  return api([&] {
    const auto event = events().find(handle);
    return event == nullptr ? cudaErrorInvalidResourceHandle : body(event);
  });
}

cudaError_t create(cudaEvent_t* event, unsigned int flags) {
  const bool timing = !(flags & cudaEventDisableTiming);
  if (event == nullptr || (flags & ~kEventFlags)) return cudaErrorInvalidValue;
  if ((flags & cudaEventInterprocess) && timing) return cudaErrorInvalidValue;
  useDevice();
  *event = events().add(std::make_shared<Event>(timing));
  return cudaSuccess;
}

cudaError_t record(const std::shared_ptr<Event>& event, cudaStream_t handle, unsigned int flags) {
  const auto stream = findStream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (flags == cudaEventRecordDefault) return recordEvent(event, *stream);
  if (flags == cudaEventRecordExternal) return recordExternalEvent(event, *stream);
  return cudaErrorInvalidValue;
}

cudaError_t query(const Event& event) {
  const auto recording = event.latest();
  if (const cudaError_t error = checkWait(recording.get()); error != cudaSuccess) return error;
  return !recording || recording->ticket.done() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t synchronize(const Event& event) {
  const auto recording = event.latest();
  if (const cudaError_t error = checkWait(recording.get()); error != cudaSuccess) return error;
  if (recording) recording->ticket.wait();
  return cudaSuccess;
}

cudaError_t elapsed(const Event& start, cudaEvent_t endHandle, float* milliseconds) {
  const auto end = events().find(endHandle);
  if (end == nullptr) return cudaErrorInvalidResourceHandle;
  if (milliseconds == nullptr) return cudaErrorInvalidValue;
  const auto from = start.latest();
  const auto to = end->latest();
  if (!start.hasTiming() || !end->hasTiming() || !from || !to)
    return cudaErrorInvalidResourceHandle;
  if (from->captured || to->captured) return cudaErrorCapturedEvent;
  if (!from->ticket.done() || !to->ticket.done()) return cudaErrorNotReady;
  *milliseconds = static_cast<float>(static_cast<double>(to->timeNs - from->timeNs) * 1e-6);
  return cudaSuccess;
}

}  // namespace

}  // namespace cinch::cudart

using namespace cinch::cudart;

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return api([&] { return create(event, cudaEventDefault); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return api([&] { return create(event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return api([&] { return events().remove(event) ? cudaSuccess : cudaErrorInvalidResourceHandle; });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  return onEvent(event, [&](const auto& found) { return record(found, stream, flags); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return onEvent(event, [](const auto& found) { return synchronize(*found); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return onEvent(event, [](const auto& found) { return query(*found); });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return onEvent(start, [&](const auto& found) { return elapsed(*found, end, milliseconds); });
}
