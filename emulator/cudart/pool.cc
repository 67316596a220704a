#include "emulator/cudart/pool.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "emulator/cudart/device.h"
#include "emulator/environment.h"

namespace cinch::cudart {
namespace {

struct Pool {
  std::array<int, 3> reuse{1, 1, 1};  // remembered, and of no effect
  uint64_t releaseThreshold = 0;      // the same
  uint64_t used = 0;
  uint64_t usedHigh = 0;
  uint64_t reservedHigh = 0;

  void add(size_t nBytes) {
    used += nBytes;
    usedHigh = std::max(usedHigh, used);
    reservedHigh = std::max(reservedHigh, used);
  }
};

struct Pools {
  std::mutex mutex;
  std::array<Pool, emulator::kMaxDevices> all;
};

Pools& pools() {
  static auto* const instance = new Pools;  // outlives the process's exit
  return *instance;
}

Pool& poolOf(int device) {
  return pools().all[static_cast<size_t>(device)];
}

bool isReuse(cudaMemPoolAttr attribute) {
  return attribute >= cudaMemPoolReuseFollowEventDependencies &&
         attribute <= cudaMemPoolReuseAllowInternalDependencies;
}

int& reuseOf(Pool& pool, cudaMemPoolAttr attribute) {
  return pool.reuse[static_cast<size_t>(attribute - cudaMemPoolReuseFollowEventDependencies)];
}

// Null where the attribute is no number of bytes.
uint64_t* bytesOf(Pool& pool, cudaMemPoolAttr attribute) {
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      return &pool.releaseThreshold;
    case cudaMemPoolAttrReservedMemCurrent:
    case cudaMemPoolAttrUsedMemCurrent:
      return &pool.used;
    case cudaMemPoolAttrReservedMemHigh:
      return &pool.reservedHigh;
    case cudaMemPoolAttrUsedMemHigh:
      return &pool.usedHigh;
    default:
      return nullptr;
  }
}

// A high-water mark can only be set to 0, and then begins at what is in use.
cudaError_t setBytes(Pool& pool, cudaMemPoolAttr attribute, const void* value) {
  uint64_t* const bytes = bytesOf(pool, attribute);
  if (bytes == nullptr || bytes == &pool.used) return cudaErrorInvalidValue;
  uint64_t given = 0;
  std::memcpy(&given, value, sizeof given);
  const bool isMark = bytes != &pool.releaseThreshold;
  if (isMark && given != 0) return cudaErrorInvalidValue;
  *bytes = isMark ? pool.used : given;
  return cudaSuccess;
}

}  // namespace

cudaMemPool_t poolHandle(int device) {
  return reinterpret_cast<cudaMemPool_t>(&poolOf(device));
}

int poolDevice(cudaMemPool_t pool) {
  for (int device = 0; device < deviceCount(); ++device)
    if (poolHandle(device) == pool) return device;
  return -1;
}

cudaError_t allocateFromPool(int device, size_t nBytes, void** memory) {
  const MemoryTraits traits{cudaMemoryTypeDevice, device, Origin::pool};
  const cudaError_t error = Memory::instance().allocate(traits, nBytes, memory);
  if (error != cudaSuccess) return error;
  std::lock_guard lock(pools().mutex);
  poolOf(device).add(nBytes);
  return cudaSuccess;
}

void releaseMemory(const void* base) {
  const auto released = Memory::instance().release(base);
  if (!released || released->traits.origin != Origin::pool) return;
  std::lock_guard lock(pools().mutex);
  poolOf(released->traits.device).used -= released->nBytes;
}

cudaError_t getPoolAttribute(int device, cudaMemPoolAttr attribute, void* value) {
  std::lock_guard lock(pools().mutex);
  Pool& pool = poolOf(device);
  if (isReuse(attribute)) {
    std::memcpy(value, &reuseOf(pool, attribute), sizeof(int));
    return cudaSuccess;
  }
  const uint64_t* const bytes = bytesOf(pool, attribute);
  if (bytes == nullptr) return cudaErrorInvalidValue;
  std::memcpy(value, bytes, sizeof *bytes);
  return cudaSuccess;
}

cudaError_t setPoolAttribute(int device, cudaMemPoolAttr attribute, const void* value) {
  std::lock_guard lock(pools().mutex);
  Pool& pool = poolOf(device);
  if (isReuse(attribute)) {
    std::memcpy(&reuseOf(pool, attribute), value, sizeof(int));
    return cudaSuccess;
  }
  return setBytes(pool, attribute, value);
}

void resetPools() {
  std::lock_guard lock(pools().mutex);
  pools().all.fill(Pool());
}

}  // namespace cinch::cudart
