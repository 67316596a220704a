// cudaMalloc and its kin, copies and fills.

#include <cstring>

#include "emulator/cudart/api.h"
#include "emulator/cudart/capture_rules.h"
#include "emulator/cudart/memory.h"
#include "emulator/cudart/stream.h"

namespace cinch::cudart {
namespace {

constexpr unsigned int kHostAllocFlags =
    cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;

cudaError_t allocate(cudaMemoryType type, void** memory, size_t nBytes) {
  if (memory == nullptr) return cudaErrorInvalidValue;
  if (const cudaError_t error = checkUnsafe(); error != cudaSuccess) return error;
  return Memory::instance().allocate(type, nBytes, memory);
}

// Waits for the device as CUDA does, since work that was submitted may still use the memory.
cudaError_t release(cudaMemoryType type, void* memory) {
  if (const cudaError_t error = checkUnsafe(); error != cudaSuccess) return error;
  if (memory == nullptr) return cudaSuccess;
  if (!Memory::instance().owns(type, memory)) return cudaErrorInvalidValue;
  synchronizeDevice();
  Memory::instance().release(type, memory);
  return cudaSuccess;
}

// Where a range lies: memory that the device can reach (allocated here, also pinned), or elsewhere.
enum class Place { reachable, elsewhere, crossesItsEnd };

Place placeOf(const void* pointer, size_t nBytes) {
  const auto allocation = Memory::instance().find(pointer);
  if (!allocation) return Place::elsewhere;
  const size_t offset = static_cast<const char*>(pointer) - static_cast<char*>(allocation->base);
  return nBytes <= allocation->nBytes - offset ? Place::reachable : Place::crossesItsEnd;
}

// Whether `kind` may name the range, the end of the copy that is device memory if `device`.
bool endAllowed(const void* pointer, size_t nBytes, bool device) {
  const Place place = placeOf(pointer, nBytes);
  return place == Place::reachable || (place == Place::elsewhere && !device);
}

cudaError_t checkCopy(const void* to, const void* from, size_t nBytes, cudaMemcpyKind kind) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
    return cudaErrorInvalidMemcpyDirection;
  const bool toDevice = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool fromDevice = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const bool allowed =
      nBytes == 0 || (to != nullptr && from != nullptr && endAllowed(to, nBytes, toDevice) &&
                      endAllowed(from, nBytes, fromDevice));
  return allowed ? cudaSuccess : cudaErrorInvalidValue;
}

bool isDevice(const void* pointer) {
  const auto allocation = Memory::instance().find(pointer);
  return allocation && allocation->type == cudaMemoryTypeDevice;
}

// The caller copies, once all work that the null stream is ordered with is done. A copy between
// device buffers does not wait, as on a GPU.
cudaError_t copy(void* to, const void* from, size_t nBytes, cudaMemcpyKind kind) {
  if (const cudaError_t error = checkCopy(to, from, nBytes, kind); error != cudaSuccess)
    return error;
  const auto stream = findStream(cudaStreamLegacy);
  if (const cudaError_t error = checkWait(*stream); error != cudaSuccess) return error;
  if (nBytes != 0 && isDevice(to) && isDevice(from)) {
    stream->submit([=] { std::memmove(to, from, nBytes); });
    return cudaSuccess;
  }
  stream->synchronize();
  if (nBytes != 0) std::memmove(to, from, nBytes);
  return cudaSuccess;
}

// Reads `from` when the copy runs, also where it is pageable: a program that changes it before the
// stream gets there is wrong here, and would be with pinned memory on a GPU.
cudaError_t copyAsync(void* to, const void* from, size_t nBytes, cudaMemcpyKind kind,
                      Stream& stream) {
  const cudaError_t error = checkCopy(to, from, nBytes, kind);
  if (error != cudaSuccess || nBytes == 0) return error;
  return perform(stream, cudaGraphNodeTypeMemcpy,
                 [=](Stream& lane) { lane.submit([=] { std::memmove(to, from, nBytes); }); });
}

cudaError_t fillAsync(void* memory, int value, size_t nBytes, Stream& stream) {
  if (nBytes == 0) return cudaSuccess;
  if (placeOf(memory, nBytes) != Place::reachable) return cudaErrorInvalidValue;
  return perform(stream, cudaGraphNodeTypeMemset,
                 [=](Stream& lane) { lane.submit([=] { std::memset(memory, value, nBytes); }); });
}

cudaError_t fill(void* memory, int value, size_t nBytes) {
  const auto stream = findStream(cudaStreamLegacy);
  const cudaError_t error = checkWait(*stream);
  return error == cudaSuccess ? fillAsync(memory, value, nBytes, *stream) : error;
}

// The memory is there at once, which is earlier than the stream promises.
cudaError_t allocateAsync(void** memory, size_t nBytes, Stream& stream) {
  if (memory == nullptr) return cudaErrorInvalidValue;
  if (const cudaError_t error = checkUncaptured(stream); error != cudaSuccess) return error;
  return Memory::instance().allocate(cudaMemoryTypeDevice, nBytes, memory);
}

cudaError_t releaseAsync(void* memory, Stream& stream) {
  if (const cudaError_t error = checkUncaptured(stream); error != cudaSuccess) return error;
  if (memory == nullptr) return cudaSuccess;
  if (!Memory::instance().owns(cudaMemoryTypeDevice, memory)) return cudaErrorInvalidValue;
  stream.submit([memory] { Memory::instance().release(cudaMemoryTypeDevice, memory); });
  return cudaSuccess;
}

cudaError_t describe(const void* pointer, cudaPointerAttributes* attributes) {
  if (attributes == nullptr) return cudaErrorInvalidValue;
  *attributes = {};
  const auto allocation = Memory::instance().find(pointer);
  void* const address = const_cast<void*>(pointer);
  attributes->type = allocation ? allocation->type : cudaMemoryTypeUnregistered;
  attributes->device = allocation ? 0 : -2;  // cudaInvalidDeviceId
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

cudaError_t cudaFree(void* memory) {
  return api([&] { return release(cudaMemoryTypeDevice, memory); });
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
  return api([&] { return release(cudaMemoryTypeHost, memory); });
}

cudaError_t cudaHostGetDevicePointer(void** devicePointer, void* hostPointer, unsigned int flags) {
  return api([&] {
    const auto allocation = Memory::instance().find(hostPointer);
    if (devicePointer == nullptr || flags != 0) return cudaErrorInvalidValue;
    if (!allocation || allocation->type != cudaMemoryTypeHost) return cudaErrorInvalidValue;
    *devicePointer = hostPointer;
    return cudaSuccess;
  });
}

cudaError_t cudaMallocAsync(void** memory, size_t nBytes, cudaStream_t stream) {
  return onStream(stream, [&](Stream& found) { return allocateAsync(memory, nBytes, found); });
}

cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  return onStream(stream, [&](Stream& found) { return releaseAsync(memory, found); });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t nBytes, cudaMemcpyKind kind) {
  return api([&] { return copy(to, from, nBytes, kind); });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t nBytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return onStream(stream, [&](Stream& found) { return copyAsync(to, from, nBytes, kind, found); });
}

cudaError_t cudaMemset(void* memory, int value, size_t nBytes) {
  return api([&] { return fill(memory, value, nBytes); });
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t nBytes, cudaStream_t stream) {
  return onStream(stream, [&](Stream& found) { return fillAsync(memory, value, nBytes, found); });
}

cudaError_t cudaMemGetInfo(size_t* nFree, size_t* nTotal) {
  return api([&] {
    if (nFree == nullptr || nTotal == nullptr) return cudaErrorInvalidValue;
    *nFree = Memory::instance().available();
    *nTotal = Memory::instance().total();
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return api([&] { return describe(pointer, attributes); });
}
