#include "emulator/cudart/api.h"

#include <pthread.h>

#include <atomic>
#include <new>

namespace cinch::cudart {
namespace {

thread_local cudaError_t lastError = cudaSuccess;
thread_local cudaError_t launchError = cudaSuccess;
thread_local bool insideHostFunction = false;
std::atomic<bool> forkedChild{false};

void startOnce() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forkedChild = true; });
  (void)registered;  // without the handler a child that uses CUDA hangs, as it does without us
}

}  // namespace

cudaError_t setError(cudaError_t error) {
  if (error != cudaSuccess) lastError = error;
  return error;
}

cudaError_t takeError() {
  launchError = cudaSuccess;
  return std::exchange(lastError, cudaSuccess);
}

cudaError_t peekError() {
  return lastError;
}

cudaError_t refuseLaunch() {
  const cudaError_t error = notSupported();
  launchError = error;
  return error;
}

cudaError_t takeLaunchError() {
  return std::exchange(launchError, cudaSuccess);
}

cudaError_t admit() {
  startOnce();
  if (inForkedChild()) return cudaErrorInitializationError;
  return insideHostFunction ? cudaErrorNotPermitted : cudaSuccess;
}

bool inForkedChild() {
  return forkedChild.load(std::memory_order_relaxed);
}

cudaError_t errorOfException() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return cudaErrorMemoryAllocation;
  } catch (...) {
    return cudaErrorOperatingSystem;  // a worker thread could not be started
  }
}

HostFunctionScope::HostFunctionScope() {
  insideHostFunction = true;
}

HostFunctionScope::~HostFunctionScope() {
  insideHostFunction = false;
}

}  // namespace cinch::cudart
