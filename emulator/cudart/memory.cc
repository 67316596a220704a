#include "emulator/cudart/memory.h"

#include <unistd.h>

#include <cstdint>
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

bool isOnDevice(const MemoryTraits& traits) {
  return traits.type != cudaMemoryTypeHost;
}

void freePages(const Allocation& allocation) {
  if (allocation.traits.origin != Origin::registered) std::free(allocation.base);
}

}  // namespace

Memory& Memory::instance() {
  static Memory* const memory = new Memory;  // workers may use it while the process exits
  return *memory;
}

Memory::Memory() : total_(machineMemory()) {}

cudaError_t Memory::allocate(MemoryTraits traits, size_t nBytes, void** memory) {
  *memory = nullptr;
  if (nBytes == 0) return cudaSuccess;
  std::unique_lock lock(mutex_);
  if (nBytes > total_ - (isOnDevice(traits) ? used_ : 0)) return cudaErrorMemoryAllocation;
  Pages pages = allocatePages(nBytes);
  if (pages == nullptr) return cudaErrorMemoryAllocation;
  add({pages.get(), nBytes, traits});
  if (isOnDevice(traits)) used_ += nBytes;
  *memory = pages.release();
  return cudaSuccess;
}

// Memory that the program registered and then freed without a word may come back as ours.
void Memory::add(const Allocation& allocation) {
  const char* const base = static_cast<const char*>(allocation.base);
  for (auto stale = firstOverlap(base, allocation.nBytes); stale != allocations_.end();
       stale = firstOverlap(base, allocation.nBytes))
    allocations_.erase(stale);
  allocations_.emplace(base, allocation);
}

cudaError_t Memory::announce(int device, void* memory, size_t nBytes) {
  if (memory == nullptr || nBytes == 0 ||
      nBytes > UINTPTR_MAX - reinterpret_cast<uintptr_t>(memory))
    return cudaErrorInvalidValue;
  const char* const base = static_cast<const char*>(memory);
  std::unique_lock lock(mutex_);
  const auto known = firstOverlap(base, nBytes);
  if (known != allocations_.end())
    return isOnDevice(known->second.traits) ? cudaErrorInvalidValue
                                            : cudaErrorHostMemoryAlreadyRegistered;
  add({memory, nBytes, {cudaMemoryTypeHost, device, Origin::registered}});
  return cudaSuccess;
}

std::optional<Allocation> Memory::release(const void* base) {
  std::unique_lock lock(mutex_);
  const auto node = allocations_.extract(static_cast<const char*>(base));
  if (node.empty()) return std::nullopt;
  const Allocation allocation = node.mapped();
  if (isOnDevice(allocation.traits)) used_ -= allocation.nBytes;
  lock.unlock();
  freePages(allocation);
  return allocation;
}

void Memory::releaseAll() {
  std::unique_lock lock(mutex_);
  for (const auto& [base, allocation] : allocations_) freePages(allocation);
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

std::optional<Allocation> Memory::findBase(const void* pointer) const {
  std::shared_lock lock(mutex_);
  const auto found = allocations_.find(static_cast<const char*>(pointer));
  if (found == allocations_.end()) return std::nullopt;
  return found->second;
}

// The end where nothing known lies in the range; allocations never overlap each other.
Memory::Map::iterator Memory::firstOverlap(const char* begin, size_t nBytes) {
  const auto after = allocations_.upper_bound(begin);
  if (after != allocations_.begin()) {
    const auto before = std::prev(after);
    if (begin < before->first + before->second.nBytes) return before;
  }
  return after != allocations_.end() && after->first < begin + nBytes ? after : allocations_.end();
}

size_t Memory::available() const {
  std::shared_lock lock(mutex_);
  return total_ - used_;
}

}  // namespace cinch::cudart
