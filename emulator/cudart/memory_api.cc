// Allocation of memory, and what is known of a pointer.

#include "emulator/cudart/api.h"
#include "emulator/cudart/capture_rules.h"
#include "emulator/cudart/device.h"
#include "emulator/cudart/memory.h"
#include "emulator/cudart/pool.h"
#include "emulator/cudart/stream.h"

namespace cinch::cudart {
namespace {

constexpr unsigned int kHostAllocFlags =
    cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
// Of the others, one is for memory of other hardware, and one for memory that devices only read.
constexpr unsigned int kHostRegisterFlags = cudaHostRegisterPortable | cudaHostRegisterMapped;
constexpr unsigned int kHostRegisterUnsupported =
    cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;

cudaError_t allocate(cudaMemoryType type, void** memory, size_t nBytes) {
  if (memory == nullptr) return cudaErrorInvalidValue;
  if (const cudaError_t error = checkUnsafe(); error != cudaSuccess) return error;
  return Memory::instance().allocate({type, useDevice()}, nBytes, memory);
}

bool isDeviceBase(const void* memory) {
  const auto allocation = Memory::instance().findBase(memory);
  return allocation && allocation->traits.type != cudaMemoryTypeHost;
}

// Whether cudaFreeHost (Origin::allocated) or cudaHostUnregister (Origin::registered) may end it.
bool isHostBase(const void* memory, Origin origin) {
  const auto allocation = Memory::instance().findBase(memory);
  return allocation && allocation->traits.type == cudaMemoryTypeHost &&
         allocation->traits.origin == origin;
}

// Waits for the device as CUDA does, since work that was submitted may still use the memory.
// `unknown` is the error where `isKnown(memory)` is false.
template <class Known>
cudaError_t release(void* memory, cudaError_t unknown, Known&& isKnown) {
  if (const cudaError_t error = checkUnsafe(); error != cudaSuccess) return error;
  useDevice();  // programs make a device ready with cudaFree(nullptr)
  if (memory == nullptr) return cudaSuccess;
  if (!isKnown(memory)) return unknown;
  synchronizeDevice();
  releaseMemory(memory);
  return cudaSuccess;
}

cudaError_t allocateManaged(void** memory, size_t nBytes, unsigned int flags) {
  if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost) return cudaErrorInvalidValue;
  if (nBytes == 0) return cudaErrorInvalidValue;
  return allocate(cudaMemoryTypeManaged, memory, nBytes);
}

cudaError_t registerHost(void* memory, size_t nBytes, unsigned int flags) {
  if (flags & ~(kHostRegisterFlags | kHostRegisterUnsupported)) return cudaErrorInvalidValue;
  if (flags & kHostRegisterUnsupported) return cudaErrorNotSupported;
  if (const cudaError_t error = checkUnsafe(); error != cudaSuccess) return error;
  return Memory::instance().announce(useDevice(), memory, nBytes);
}

cudaError_t unregisterHost(void* memory) {
  if (memory == nullptr) return cudaErrorInvalidValue;
  return release(memory, cudaErrorHostMemoryNotRegistered,
                 [](const void* it) { return isHostBase(it, Origin::registered); });
}

cudaError_t mapHost(void** devicePointer, void* hostPointer, unsigned int flags) {
  if (devicePointer == nullptr || flags != 0) return cudaErrorInvalidValue;
  const auto allocation = Memory::instance().find(hostPointer);
  if (!allocation || allocation->traits.type != cudaMemoryTypeHost) return cudaErrorInvalidValue;
  *devicePointer = hostPointer;
  return cudaSuccess;
}

// The memory is there at once, which is earlier than the stream promises.
cudaError_t allocateAsync(void** memory, size_t nBytes, Stream& stream) {
  if (memory == nullptr) return cudaErrorInvalidValue;
  if (const cudaError_t error = checkUncaptured(stream); error != cudaSuccess) return error;
  return allocateFromPool(deviceOf(stream), nBytes, memory);
}

cudaError_t releaseAsync(void* memory, Stream& stream) {
  if (const cudaError_t error = checkUncaptured(stream); error != cudaSuccess) return error;
  if (memory == nullptr) return cudaSuccess;
  if (!isDeviceBase(memory)) return cudaErrorInvalidValue;
  stream.submit([memory] { releaseMemory(memory); });
  return cudaSuccess;
}

cudaError_t describe(const void* pointer, cudaPointerAttributes* attributes) {
  if (attributes == nullptr) return cudaErrorInvalidValue;
  *attributes = {};
  const auto allocation = Memory::instance().find(pointer);
  void* const address = const_cast<void*>(pointer);
  attributes->type = allocation ? allocation->traits.type : cudaMemoryTypeUnregistered;
  attributes->device = allocation ? allocation->traits.device : cudaInvalidDeviceId;
  attributes->devicePointer = allocation ? address : nullptr;
  attributes->hostPointer = attributes->type == cudaMemoryTypeDevice ? nullptr : address;
  return cudaSuccess;
}

}  // namespace
}  // namespace cinch::cudart

using namespace cinch::cudart;

cudaError_t cudaMalloc(void** memory, size_t nBytes) {
  return api([&] { return allocate(cudaMemoryTypeDevice, memory, nBytes); });
}

cudaError_t cudaMallocManaged(void** memory, size_t nBytes, unsigned int flags) {
  return api([&] { return allocateManaged(memory, nBytes, flags); });
}

cudaError_t cudaFree(void* memory) {
  return api([&] { return release(memory, cudaErrorInvalidValue, isDeviceBase); });
}

cudaError_t cudaMallocHost(void** memory, size_t nBytes) {
  return api([&] { return allocate(cudaMemoryTypeHost, memory, nBytes); });
}

cudaError_t cudaHostAlloc(void** memory, size_t nBytes, unsigned int flags) {
  return api([&] {
    if (flags & ~kHostAllocFlags) return cudaErrorInvalidValue;
    return allocate(cudaMemoryTypeHost, memory, nBytes);
  });
}

cudaError_t cudaFreeHost(void* memory) {
  return api([&] {
    return release(memory, cudaErrorInvalidValue,
                   [](const void* it) { return isHostBase(it, Origin::allocated); });
  });
}

cudaError_t cudaHostRegister(void* memory, size_t nBytes, unsigned int flags) {
  return api([&] { return registerHost(memory, nBytes, flags); });
}

cudaError_t cudaHostUnregister(void* memory) {
  return api([&] { return unregisterHost(memory); });
}

cudaError_t cudaHostGetDevicePointer(void** devicePointer, void* hostPointer, unsigned int flags) {
  return api([&] { return mapHost(devicePointer, hostPointer, flags); });
}

cudaError_t cudaMallocAsync(void** memory, size_t nBytes, cudaStream_t stream) {
  return onStream(stream, [&](Stream& found) { return allocateAsync(memory, nBytes, found); });
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  return onStream(stream, [&](Stream& found) { return releaseAsync(memory, found); });
}

cudaError_t cudaMemGetInfo(size_t* nFree, size_t* nTotal) {
  return api([&] {
    if (nFree == nullptr || nTotal == nullptr) return cudaErrorInvalidValue;
    useDevice();
    *nFree = Memory::instance().available();
    *nTotal = Memory::instance().total();
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return api([&] { return describe(pointer, attributes); });
}
