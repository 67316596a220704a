// What programs with kernels need in order to load. There is nothing to run a kernel on: a launch
// is cudaErrorNotSupported, and the table of a program's kernels is not even looked at.
//
// The functions with leading underscores are called by code that nvcc generates.

#include "emulator/cudart/api.h"

using namespace cinch::cudart;

namespace {

cudaError_t noKernels() {
  return api([] { return cudaErrorNotSupported; });
}

}  // namespace

cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t) {
  return noKernels();
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void*, void**) {
  return noKernels();
}

#pragma GCC visibility push(default)
extern "C" {

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

// What f<<<...>>>(...) begins with; an error here skips the rest of it.
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, CUstream_st*) {
  return noKernels();
}

cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) {
  return noKernels();
}

cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) {
  return noKernels();
}

cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t) {
  return noKernels();
}

}  // extern "C"
#pragma GCC visibility pop
