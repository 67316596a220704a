// Code that programs load at run time, and the variables of device code. Neither exists on a CPU.

#include "emulator/cudart/api.h"

using namespace cinch::cudart;

cudaError_t cudaLibraryLoadData(cudaLibrary_t*, const void*, cudaJitOption*, void**, unsigned int,
                                cudaLibraryOption*, void**, unsigned int) {
  return notSupported();
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t*, const char*, cudaJitOption*, void**,
                                    unsigned int, cudaLibraryOption*, void**, unsigned int) {
  return notSupported();
}

cudaError_t cudaLibraryUnload(cudaLibrary_t) {
  return notSupported();
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t*, cudaLibrary_t, const char*) {
  return notSupported();
}

cudaError_t cudaLibraryGetKernelCount(unsigned int*, cudaLibrary_t) {
  return notSupported();
}

cudaError_t cudaLibraryGetGlobal(void**, size_t*, cudaLibrary_t, const char*) {
  return notSupported();
}

cudaError_t cudaLibraryGetManaged(void**, size_t*, cudaLibrary_t, const char*) {
  return notSupported();
}

cudaError_t cudaLibraryGetUnifiedFunction(void**, cudaLibrary_t, const char*) {
  return notSupported();
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t, cudaFuncAttribute, int, int) {
  return notSupported();
}

// What a variable holds at the start lies in code for the device, which is not read here; memory
// without it would be wrong without saying so.
cudaError_t cudaGetSymbolAddress(void**, const void*) {
  return api([] { return cudaErrorInvalidSymbol; });
}

cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, cudaMemcpyKind) {
  return api([] { return cudaErrorInvalidSymbol; });
}
