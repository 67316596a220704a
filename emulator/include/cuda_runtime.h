/* The C++ conveniences of the CUDA runtime over cuda_runtime_api.h: typed allocation. */
#ifndef CINCH_EMULATOR_CUDA_RUNTIME_H_
#define CINCH_EMULATOR_CUDA_RUNTIME_H_

#include "cuda_runtime_api.h"

#ifdef __cplusplus

template <class T>
inline cudaError_t cudaMalloc(T** memory, size_t nBytes) {
  return ::cudaMalloc(reinterpret_cast<void**>(memory), nBytes);
}

template <class T>
inline cudaError_t cudaMallocAsync(T** memory, size_t nBytes, cudaStream_t stream) {
  return ::cudaMallocAsync(reinterpret_cast<void**>(memory), nBytes, stream);
}

template <class T>
inline cudaError_t cudaMallocHost(T** memory, size_t nBytes, unsigned int flags = 0) {
  return ::cudaHostAlloc(reinterpret_cast<void**>(memory), nBytes, flags);
}

template <class T>
inline cudaError_t cudaHostAlloc(T** memory, size_t nBytes, unsigned int flags) {
  return ::cudaHostAlloc(reinterpret_cast<void**>(memory), nBytes, flags);
}

template <class T>
inline cudaError_t cudaHostGetDevicePointer(T** devicePointer, void* hostPointer,
                                            unsigned int flags) {
  return ::cudaHostGetDevicePointer(reinterpret_cast<void**>(devicePointer), hostPointer, flags);
}

inline cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned int flags) {
  return ::cudaEventCreateWithFlags(event, flags);
}

#endif /* __cplusplus */

#endif /* CINCH_EMULATOR_CUDA_RUNTIME_H_ */
