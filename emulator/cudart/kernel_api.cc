// What programs with kernels need in order to load. There is nothing to run a kernel on: a launch
// is cudaErrorNotSupported, and the table of a program's kernels is not even looked at. What asks
// for a kernel's attributes loads it first, as in CUDA.
//
// The functions with leading underscores are called by code that nvcc generates.

#include <algorithm>

#include "emulator/cudart/api.h"
#include "emulator/cudart/kernel_loading.h"

using namespace cinch::cudart;

namespace {

// Limits of an H100.
constexpr int kMaxThreadsPerBlock = 1024;
constexpr int kMaxThreads = 2048;  // of a multiprocessor
constexpr int kMaxBlocks = 32;     // of a multiprocessor
constexpr size_t kSharedBytes = 228 << 10;
constexpr size_t kMaxSharedBytesPerBlock = 227 << 10;
constexpr size_t kReservedSharedBytes = 1 << 10;  // of each block, by the system

// How many blocks of a kernel with few registers fit on a multiprocessor; 0: not one.
int blocksThatFit(int blockSize, size_t sharedBytes) {
  if (blockSize > kMaxThreadsPerBlock || sharedBytes > kMaxSharedBytesPerBlock) return 0;
  const int byShared = static_cast<int>(kSharedBytes / (sharedBytes + kReservedSharedBytes));
  return std::min({kMaxThreads / blockSize, byShared, kMaxBlocks});
}

cudaError_t giveOccupancy(int* nBlocks, const void* function, int blockSize, size_t sharedBytes) {
  if (nBlocks == nullptr || blockSize < 1) return cudaErrorInvalidValue;
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  *nBlocks = blocksThatFit(blockSize, sharedBytes);
  return cudaSuccess;
}

// The table of kernels is not read, so each is taken for a small one.
cudaFuncAttributes smallKernel() {
  cudaFuncAttributes kernel = {};
  kernel.maxThreadsPerBlock = kMaxThreadsPerBlock;
  kernel.numRegs = 32;
  kernel.ptxVersion = kernel.binaryVersion = 90;
  kernel.maxDynamicSharedSizeBytes = 48 << 10;
  kernel.preferredShmemCarveout = -1;
  return kernel;
}

// An attribute that a kernel could have is accepted, and of no effect.
cudaError_t checkAttribute(cudaFuncAttribute attribute, int value) {
  if (attribute < cudaFuncAttributeMaxDynamicSharedMemorySize || attribute >= cudaFuncAttributeMax)
    return cudaErrorInvalidValue;
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize &&
      (value < 0 || static_cast<size_t>(value) > kMaxSharedBytesPerBlock))
    return cudaErrorInvalidValue;
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t) {
  return notSupported();
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void*, void**) {
  return notSupported();
}

cudaError_t cudaLaunchCooperativeKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t) {
  return notSupported();
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return api([&] {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t error = loadKernel(function); error != cudaSuccess) return error;
    *attributes = smallKernel();
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return api([&] {
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    return checkAttribute(attribute, value);
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* nBlocks, const void* function,
                                                          int blockSize, size_t sharedBytes) {
  return api([&] { return giveOccupancy(nBlocks, function, blockSize, sharedBytes); });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* nBlocks, const void* function, int blockSize, size_t sharedBytes, unsigned int flags) {
  return api([&] {
    if (flags & ~unsigned{cudaOccupancyDisableCachingOverride}) return cudaErrorInvalidValue;
    return giveOccupancy(nBlocks, function, blockSize, sharedBytes);
  });
}

#pragma GCC visibility push(default)
extern "C" {

// For libraries whose kernels are host functions here: what a launch of `kernel`, an address of
// theirs that stands for it, does before it enqueues anything.
cudaError_t cinchEmulatorLoadKernel(const void* kernel);
cudaError_t cinchEmulatorLoadKernel(const void* kernel) {
  return api([&] { return loadKernel(kernel); });
}

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void**) {}

void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {}

void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

char __cudaInitModule(void**) {
  return 1;
}

// What f<<<...>>>(...) begins with; an error here skips the rest of it, and nobody is given it.
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, CUstream_st*) {
  return refuseLaunch();
}

cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) {
  return notSupported();
}

cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) {
  return notSupported();
}

cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t) {
  return notSupported();
}

}  // extern "C"
#pragma GCC visibility pop
