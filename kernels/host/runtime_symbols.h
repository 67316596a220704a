// The CUDA runtime functions that the host backend uses, and one that only the emulator has, taken
// at run time from the emulator that the process has loaded. Types are CUDA's ABI: pointers, ints
// and enums.
#pragma once

#include <cstddef>

namespace cinch::host {

// name, parameter types; all return a cudaError_t.
#define CINCH_RUNTIME_SYMBOLS(SYMBOL)                                                        \
  SYMBOL(cudaGetDevice, int* device)                                                         \
  SYMBOL(cudaSetDevice, int device)                                                          \
  SYMBOL(cudaDeviceGetPCIBusId, char* text, int size, int device)                            \
  SYMBOL(cudaDeviceGetAttribute, int* value, int attribute, int device)                      \
  SYMBOL(cinchEmulatorLoadKernel, const void* kernel)                                        \
  SYMBOL(cudaMalloc, void** memory, size_t nBytes)                                           \
  SYMBOL(cudaFree, void* memory)                                                             \
  SYMBOL(cudaMallocAsync, void** memory, size_t nBytes, void* stream)                        \
  SYMBOL(cudaFreeAsync, void* memory, void* stream)                                          \
  SYMBOL(cudaMemGetInfo, size_t* nFree, size_t* nTotal)                                      \
  SYMBOL(cudaHostAlloc, void** memory, size_t nBytes, unsigned flags)                        \
  SYMBOL(cudaFreeHost, void* memory)                                                         \
  SYMBOL(cudaMemcpyAsync, void* to, const void* from, size_t nBytes, int kind, void* stream) \
  SYMBOL(cudaMemsetAsync, void* memory, int value, size_t nBytes, void* stream)              \
  SYMBOL(cudaStreamCreateWithFlags, void** stream, unsigned flags)                           \
  SYMBOL(cudaStreamDestroy, void* stream)                                                    \
  SYMBOL(cudaStreamGetCaptureInfo, void* stream, int* status, unsigned long long* id,        \
         void** graph, const void*** nodes, const void** edges, size_t* nNodes)              \
  SYMBOL(cudaStreamSynchronize, void* stream)                                                \
  SYMBOL(cudaThreadExchangeStreamCaptureMode, int* mode)                                     \
  SYMBOL(cudaEventCreateWithFlags, void** event, unsigned flags)                             \
  SYMBOL(cudaEventDestroy, void* event)                                                      \
  SYMBOL(cudaEventQuery, void* event)                                                        \
  SYMBOL(cudaEventRecord, void* event, void* stream)                                         \
  SYMBOL(cudaEventElapsedTime, float* milliseconds, void* start, void* end)                  \
  SYMBOL(cudaEventRecordWithFlags, void* event, void* stream, unsigned flags)                \
  SYMBOL(cudaStreamWaitEvent, void* stream, void* event, unsigned flags)                     \
  SYMBOL(cudaLaunchHostFunc, void* stream, void (*function)(void*), void* argument)          \
  SYMBOL(cudaUserObjectCreate, void** object, void* pointer, void (*destroy)(void*),         \
         unsigned references, unsigned flags)                                                \
  SYMBOL(cudaUserObjectRelease, void* object, unsigned count)                                \
  SYMBOL(cudaGraphRetainUserObject, void* graph, void* object, unsigned count, unsigned flags)

struct RuntimeSymbols {
#define CINCH_DECLARE(name, ...) int (*name)(__VA_ARGS__) = nullptr;
  CINCH_RUNTIME_SYMBOLS(CINCH_DECLARE)
#undef CINCH_DECLARE
  const char* (*cudaGetErrorName)(int error) = nullptr;
  int (*cudaGetLastError)() = nullptr;
};

// Finds all of them in one emulated runtime; false where none is loaded, or one that lacks any.
// A runtime without the emulator's marker is a real one, whose memory this backend cannot read.
bool findRuntimeSymbols(RuntimeSymbols& symbols);

}  // namespace cinch::host
