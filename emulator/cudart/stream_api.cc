// cudaStream* but for capture, and host functions.

#include "emulator/cudart/api.h"
#include "emulator/cudart/capture_rules.h"
#include "emulator/cudart/device.h"
#include "emulator/cudart/event.h"
#include "emulator/cudart/stream.h"

namespace cinch::cudart {
namespace {

cudaError_t create(cudaStream_t* stream, unsigned int flags, int priority) {
  if (stream == nullptr || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
  *stream = createStream({flags, priority, useDevice()});
  return cudaSuccess;
}

cudaError_t destroy(cudaStream_t handle) {
  const auto stream = findStream(handle);
  if (stream == nullptr || !destroyStream(handle)) return cudaErrorInvalidResourceHandle;
  abandonCapture(*stream);
  return cudaSuccess;
}

cudaError_t wait(Stream& stream, cudaEvent_t handle, unsigned int flags) {
  const auto event = events().find(handle);
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  if (flags == cudaEventWaitDefault) return waitEvent(stream, *event);
  if (flags == cudaEventWaitExternal) return waitExternalEvent(stream, event);
  return cudaErrorInvalidValue;
}

void runHostFunction(cudaHostFn_t function, void* userData) {
  const HostFunctionScope scope;
  function(userData);
}

cudaError_t launchHostFunction(Stream& stream, cudaHostFn_t function, void* userData) {
  if (function == nullptr) return cudaErrorInvalidValue;
  return perform(stream, cudaGraphNodeTypeHost,
                 [=](Stream& lane) { lane.submit([=] { runHostFunction(function, userData); }); });
}

cudaError_t addCallback(Stream& stream, cudaStream_t handle, cudaStreamCallback_t callback,
                        void* userData) {
  if (callback == nullptr) return cudaErrorInvalidValue;
  if (const cudaError_t error = checkUncaptured(stream); error != cudaSuccess) return error;
  stream.submit([=] {
    const HostFunctionScope scope;
    callback(handle, cudaSuccess, userData);
  });
  return cudaSuccess;
}

}  // namespace
}  // namespace cinch::cudart

using namespace cinch::cudart;

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return api([&] { return create(stream, cudaStreamDefault, 0); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return api([&] { return create(stream, flags, 0); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  return api([&] { return create(stream, flags, priority); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return api([&] { return destroy(stream); });
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

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return onStream(stream, [&](Stream& found) {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = deviceOf(found);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return onStream(stream, [](Stream& found) {
    if (const cudaError_t error = checkWait(found); error != cudaSuccess) return error;
    found.synchronize();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return onStream(stream, [](Stream& found) {
    if (const cudaError_t error = checkWait(found); error != cudaSuccess) return error;
    return found.idle() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return onStream(stream, [&](Stream& found) { return wait(found, event, flags); });
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
