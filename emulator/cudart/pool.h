// The memory pools that cudaMallocAsync takes from: one for each device. A pool keeps nothing back,
// so what it has reserved is what is in use. Thread-safe.
#pragma once

#include "emulator/cudart/memory.h"

namespace cinch::cudart {

// The handle of a device's pool; the device of a handle, -1 where it is none.
cudaMemPool_t poolHandle(int device);
int poolDevice(cudaMemPool_t pool);

cudaError_t allocateFromPool(int device, size_t nBytes, void** memory);

// Memory::release(), which also tells the pool where the memory is of one.
void releaseMemory(const void* base);

// cudaErrorInvalidValue where the attribute does not exist, or cannot be set to the value.
cudaError_t getPoolAttribute(int device, cudaMemPoolAttr attribute, void* value);
cudaError_t setPoolAttribute(int device, cudaMemPoolAttr attribute, const void* value);

// All pools as they were at the start.
void resetPools();

}  // namespace cinch::cudart
