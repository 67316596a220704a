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

struct Allocation {
  void* base;
  size_t nBytes;
  cudaMemoryType type;  // device or host
};

// Thread-safe. Device memory is as large as the machine's memory; what is allocated counts against
// it, so that a program that asks for too much is refused and not killed.
class Memory {
 public:
  static Memory& instance();

  // 0 bytes give a null pointer and success.
  cudaError_t allocate(cudaMemoryType type, size_t nBytes, void** memory);

  // Whether allocate() returned `memory` for this type, and it is not yet released.
  bool owns(cudaMemoryType type, const void* memory) const;

  // Frees what it owns; nothing else is touched.
  void release(cudaMemoryType type, void* memory);

  // Frees everything.
  void releaseAll();

  // The allocation that `pointer` lies in.
  std::optional<Allocation> find(const void* pointer) const;

  size_t total() const { return total_; }
  size_t available() const;

 private:
  Memory();

  const size_t total_;
  mutable std::shared_mutex mutex_;
  size_t used_ = 0;                                // device memory only
  std::map<const char*, Allocation> allocations_;  // by base
};

}  // namespace cinch::cudart
