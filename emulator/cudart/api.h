// The C boundary: what every exported function does around its own work.
#pragma once

#include <utility>

#include "emulator/cudart/device.h"
#include "emulator/cudart/stream.h"
#include "emulator/include/cuda_runtime_api.h"

namespace cinch::cudart {

// The calling thread's last error: setError remembers anything but success, and returns `error`.
cudaError_t setError(cudaError_t error);
cudaError_t takeError();
cudaError_t peekError();

// A kernel was not launched by <<<>>>, which gives nobody an error. Programs ask for it afterwards,
// by cudaGetLastError; those that do not would go on without what the kernel was to compute. Their
// next call on a stream is the error, as it is where a kernel has failed on a GPU.
cudaError_t refuseLaunch();
// What refuseLaunch() has left, once; cudaSuccess where the program has asked.
cudaError_t takeLaunchError();

// Why this thread may not call the runtime now: it runs a host function (cudaErrorNotPermitted), or
// it is in a child that was forked after the runtime had started and so has none of its threads
// (cudaErrorInitializationError). The first call starts the runtime.
cudaError_t admit();

// True from fork() on in a child whose parent had started the runtime.
bool inForkedChild();

// The error for the exception that is being handled; no other kind is thrown here.
cudaError_t errorOfException();

// Marks this thread as running a host function for as long as it lives.
class HostFunctionScope {
 public:
  HostFunctionScope();
  ~HostFunctionScope();
};

// Runs the body of an exported function: admission, no exception past it, last error set.
template <class Body>
cudaError_t api(Body&& body) noexcept {
  if (const cudaError_t refusal = admit(); refusal != cudaSuccess) return setError(refusal);
  try {
    return setError(std::forward<Body>(body)());
  } catch (...) {
    return setError(errorOfException());
  }
}

// The same for a function that is called on a stream: `body(stream)`, where the handle is live.
template <class Body>
cudaError_t onStream(cudaStream_t handle, Body&& body) noexcept {
  return api([&] {
    if (const cudaError_t before = takeLaunchError(); before != cudaSuccess) return before;
    useDevice();
    const auto stream = findStream(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : body(*stream);
  });
}

// The whole of a function that the emulator does not have.
inline cudaError_t notSupported() noexcept {
  return api([] { return cudaErrorNotSupported; });
}

}  // namespace cinch::cudart
