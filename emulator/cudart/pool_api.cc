// cudaMemPool*, and the memory of graphs, of which there is none.

#include <cstdint>
#include <cstring>

#include "emulator/cudart/api.h"
#include "emulator/cudart/device.h"
#include "emulator/cudart/pool.h"

namespace cinch::cudart {
namespace {

// Runs `body(device)` on the device of a pool.
template <class Body>
cudaError_t onPool(cudaMemPool_t pool, Body&& body) {
  return api([&] {
    const int device = poolDevice(pool);
    return device < 0 ? cudaErrorInvalidValue : body(device);
  });
}

bool isAccess(cudaMemAccessFlags flags) {
  return flags == cudaMemAccessFlagsProtNone || flags == cudaMemAccessFlagsProtRead ||
         flags == cudaMemAccessFlagsProtReadWrite;
}

// All devices can use a pool's memory at all times, whatever they are allowed. From its own device
// nothing can be taken away.
cudaError_t checkAccess(int owner, const cudaMemAccessDesc& access) {
  const auto& [type, device] = access.location;
  if (type != cudaMemLocationTypeDevice || !isAccess(access.flags)) return cudaErrorInvalidValue;
  if (!deviceExists(device)) return cudaErrorInvalidDevice;
  const bool takes = device == owner && access.flags != cudaMemAccessFlagsProtReadWrite;
  return takes ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t setAccess(int owner, const cudaMemAccessDesc* accesses, size_t nAccesses) {
  if (accesses == nullptr && nAccesses != 0) return cudaErrorInvalidValue;
  for (size_t i = 0; i < nAccesses; ++i)
    if (const cudaError_t error = checkAccess(owner, accesses[i]); error != cudaSuccess)
      return error;
  return cudaSuccess;
}

bool isHighMark(cudaGraphMemAttributeType attribute) {
  return attribute == cudaGraphMemAttrUsedMemHigh || attribute == cudaGraphMemAttrReservedMemHigh;
}

cudaError_t checkGraphMemory(int device, cudaGraphMemAttributeType attribute, const void* value) {
  const bool known =
      attribute >= cudaGraphMemAttrUsedMemCurrent && attribute <= cudaGraphMemAttrReservedMemHigh;
  if (value == nullptr || !known) return cudaErrorInvalidValue;
  return deviceExists(device) ? cudaSuccess : cudaErrorInvalidDevice;
}

}  // namespace
}  // namespace cinch::cudart

using namespace cinch::cudart;

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return api([&] {
    if (pool == nullptr) return cudaErrorInvalidValue;
    if (!deviceExists(device)) return cudaErrorInvalidDevice;
    *pool = poolHandle(device);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return onPool(pool, [&](int device) {
    return value == nullptr ? cudaErrorInvalidValue : getPoolAttribute(device, attribute, value);
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return onPool(pool, [&](int device) {
    return value == nullptr ? cudaErrorInvalidValue : setPoolAttribute(device, attribute, value);
  });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* accesses,
                                 size_t nAccesses) {
  return onPool(pool, [&](int device) { return setAccess(device, accesses, nAccesses); });
}

// A pool keeps back nothing that it could give up.
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t) {
  return onPool(pool, [](int) { return cudaSuccess; });
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute,
                                           void* value) {
  return api([&] {
    const cudaError_t error = checkGraphMemory(device, attribute, value);
    if (error == cudaSuccess) std::memset(value, 0, sizeof(uint64_t));
    return error;
  });
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute,
                                           void* value) {
  return api([&] {
    if (const cudaError_t error = checkGraphMemory(device, attribute, value); error != cudaSuccess)
      return error;
    uint64_t bytes = 0;
    std::memcpy(&bytes, value, sizeof bytes);
    return isHighMark(attribute) && bytes == 0 ? cudaSuccess : cudaErrorInvalidValue;
  });
}
