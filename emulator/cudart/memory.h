// The emulator's memory: page-aligned host memory that is tracked, so that what would be an error
// on a GPU is one here.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "emulator/include/cuda_runtime_api.h"

namespace cinch::cudart {

enum class Origin {
  allocated,
  pool,        // cudaMallocAsync: counts in the pool of its device
  registered,  // the program's own, which it announced with cudaHostRegister
};

struct MemoryTraits {
  cudaMemoryType type;  // device, managed or host
  int device;           // the one that was current
  Origin origin = Origin::allocated;
};

struct Allocation {
  void* base;
  size_t nBytes;
  MemoryTraits traits;
};

// Thread-safe. Device memory is as large as the machine's memory, whatever the number of devices;
// what is allocated counts against it, so that a program that asks for too much is refused and not
// killed.
class Memory {
 public:
  static Memory& instance();

  // 0 bytes give a null pointer and success.
  cudaError_t allocate(MemoryTraits traits, size_t nBytes, void** memory);

  // Makes memory of the program known as host memory, until release().
  cudaError_t announce(int device, void* memory, size_t nBytes);

  // Frees the allocation that begins at `base`, or forgets it where it is the program's own.
  // Returns what it was; nothing where there is none.
  std::optional<Allocation> release(const void* base);

  // Releases everything.
  void releaseAll();

  // The allocation that `pointer` lies in.
  std::optional<Allocation> find(const void* pointer) const;
  // The allocation that begins at `pointer`.
  std::optional<Allocation> findBase(const void* pointer) const;

  size_t total() const { return total_; }
  size_t available() const;

 private:
  Memory();
  using Map = std::map<const char*, Allocation>;
  Map::iterator firstOverlap(const char* begin, size_t nBytes);
  void add(const Allocation& allocation);

  const size_t total_;
  mutable std::shared_mutex mutex_;
  size_t used_ = 0;  // device memory only
  Map allocations_;  // by base
};

}  // namespace cinch::cudart
