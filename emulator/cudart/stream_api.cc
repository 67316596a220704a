// cudaStream*, host functions and what there is of capture.

#include <utility>

#include "emulator/cudart/api.h"
#include "emulator/cudart/event.h"
#include "emulator/cudart/stream.h"

namespace cinch::cudart {
namespace {

// Runs `body(stream)` on a live stream.
template <class Body>
cudaError_t onStream(cudaStream_t handle, Body&& body) {
  return api([&] {
    const auto stream = findStream(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : body(*stream);
  });
}

cudaError_t create(cudaStream_t* stream, StreamTraits traits) {
  if (stream == nullptr || traits.flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
  *stream = createStream(traits);
  return cudaSuccess;
}

cudaError_t waitEvent(Stream& stream, cudaEvent_t handle, unsigned int flags) {
  const auto event = events().find(handle);
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  if (flags != cudaEventWaitDefault) return cudaErrorInvalidValue;
  if (const auto recording = event->latest()) stream.waitFor(recording->ticket);
  return cudaSuccess;
}

cudaError_t launchHostFunction(Stream& stream, cudaHostFn_t function, void* userData) {
  if (function == nullptr) return cudaErrorInvalidValue;
  stream.submit([=] {
    const HostFunctionScope scope;
    function(userData);
  });
  return cudaSuccess;
}

cudaError_t addCallback(Stream& stream, cudaStream_t handle, cudaStreamCallback_t callback,
                        void* userData) {
  if (callback == nullptr) return cudaErrorInvalidValue;
  stream.submit([=] {
    const HostFunctionScope scope;
    callback(handle, cudaSuccess, userData);
  });
  return cudaSuccess;
}

thread_local cudaStreamCaptureMode captureMode = cudaStreamCaptureModeGlobal;

}  // namespace
}  // namespace cinch::cudart

using namespace cinch::cudart;

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return api([&] { return create(stream, {}); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return api([&] { return create(stream, {flags, 0}); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  return api([&] { return create(stream, {flags, priority}); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return api([&] { return destroyStream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle; });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags) {
  return onStream(stream, [&](Stream& found) {
    if (flags == nullptr) return cudaErrorInvalidValue;
    *flags = found.traits().flags & cudaStreamNonBlocking;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return onStream(stream, [&](Stream& found) {
    if (priority == nullptr) return cudaErrorInvalidValue;
    *priority = found.traits().priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return onStream(stream, [](Stream& found) {
    found.synchronize();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return onStream(stream,
                  [](Stream& found) { return found.idle() ? cudaSuccess : cudaErrorNotReady; });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return onStream(stream, [&](Stream& found) { return waitEvent(found, event, flags); });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* userData) {
  return onStream(stream,
                  [&](Stream& found) { return launchHostFunction(found, function, userData); });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                  void* userData, unsigned int flags) {
  return onStream(stream, [&](Stream& found) {
    return flags == 0 ? addCallback(found, stream, callback, userData) : cudaErrorInvalidValue;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return onStream(stream, [](Stream&) { return cudaErrorNotSupported; });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return onStream(stream, [&](Stream&) {
    if (graph != nullptr) *graph = nullptr;
    return cudaErrorIllegalState;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return onStream(stream, [&](Stream&) {
    if (status == nullptr) return cudaErrorInvalidValue;
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long*, cudaGraph_t*, const cudaGraphNode_t**,
                                     const cudaGraphEdgeData**, size_t*) {
  return cudaStreamIsCapturing(stream, status);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return api([&] {
    if (mode == nullptr || *mode < cudaStreamCaptureModeGlobal ||
        *mode > cudaStreamCaptureModeRelaxed)
      return cudaErrorInvalidValue;
    std::swap(*mode, captureMode);
    return cudaSuccess;
  });
}
