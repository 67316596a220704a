#include "emulator/cudart/memory.h"

#include <unistd.h>

#include <cstdlib>
#include <iterator>
#include <memory>

namespace cinch::cudart {
namespace {

size_t machineMemory() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Pages = std::unique_ptr<void, Free>;

Pages allocatePages(size_t nBytes) {
  void* memory = nullptr;
  const size_t pageSize = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return Pages(posix_memalign(&memory, pageSize, nBytes) == 0 ? memory : nullptr);
}

}  // namespace

Memory& Memory::instance() {
  static Memory* const memory = new Memory;  // workers may use it while the process exits
  return *memory;
}

Memory::Memory() : total_(machineMemory()) {}

cudaError_t Memory::allocate(cudaMemoryType type, size_t nBytes, void** memory) {
  *memory = nullptr;
  if (nBytes == 0) return cudaSuccess;
  const bool onDevice = type == cudaMemoryTypeDevice;
  std::unique_lock lock(mutex_);
  if (nBytes > total_ - (onDevice ? used_ : 0)) return cudaErrorMemoryAllocation;
  Pages pages = allocatePages(nBytes);
  if (pages == nullptr) return cudaErrorMemoryAllocation;
  allocations_.emplace(static_cast<char*>(pages.get()), Allocation{pages.get(), nBytes, type});
  if (onDevice) used_ += nBytes;
  *memory = pages.release();
  return cudaSuccess;
}

bool Memory::owns(cudaMemoryType type, const void* memory) const {
  std::shared_lock lock(mutex_);
  const auto found = allocations_.find(static_cast<const char*>(memory));
  return found != allocations_.end() && found->second.type == type;
}

void Memory::release(cudaMemoryType type, void* memory) {
  std::unique_lock lock(mutex_);
  const auto found = allocations_.find(static_cast<char*>(memory));
  if (found == allocations_.end() || found->second.type != type) return;
  if (type == cudaMemoryTypeDevice) used_ -= found->second.nBytes;
  allocations_.erase(found);
  lock.unlock();
  std::free(memory);
}

void Memory::releaseAll() {
  std::unique_lock lock(mutex_);
  for (const auto& [base, allocation] : allocations_) std::free(allocation.base);
  allocations_.clear();
  used_ = 0;
}

std::optional<Allocation> Memory::find(const void* pointer) const {
  const char* const address = static_cast<const char*>(pointer);
  std::shared_lock lock(mutex_);
  const auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return std::nullopt;
  const auto& [base, allocation] = *std::prev(after);
  if (address >= base + allocation.nBytes) return std::nullopt;
  return allocation;
}

size_t Memory::available() const {
  std::shared_lock lock(mutex_);
  return total_ - used_;
}

}  // namespace cinch::cudart
