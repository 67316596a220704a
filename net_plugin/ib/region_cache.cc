#include "net_plugin/ib/region_cache.h"

#include <algorithm>
#include <utility>

namespace cinch::net::ib {

RegionCache::RegionCache(Register add, Deregister remove, size_t pageBytes)
    : add_(std::move(add)), remove_(std::move(remove)), pageBytes_(pageBytes) {}

// The lock is held while the device works, so that two callers do not register the same range.
Result<ibv_mr*> RegionCache::acquire(const void* data, size_t nBytes) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  const uintptr_t begin = address / pageBytes_ * pageBytes_;
  // Also of no bytes: a page, since no region is empty.
  const uintptr_t last = address + std::max<size_t>(nBytes, 1) - 1;
  if (last < address || last > UINTPTR_MAX - pageBytes_) {
    return errorf(Status::invalidArgument, "%zu bytes at %p do not fit into the address space",
                  nBytes, data);
  }
  const uintptr_t end = (last / pageBytes_ + 1) * pageBytes_;
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.begin <= begin && end <= entry.end;
  });
  if (found != entries_.end()) {
    ++found->uses;
    return found->region;
  }
  const Result<ibv_mr*> region = add_(reinterpret_cast<void*>(begin), end - begin);
  if (!region) return region.error();
  entries_.push_back({begin, end, region.value(), 1});
  return region.value();
}

Result<void> RegionCache::release(ibv_mr* region) {
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.region == region; });
  if (found == entries_.end()) {
    return errorf(Status::invalidArgument, "memory that was not registered here");
  }
  if (--found->uses > 0) return {};
  entries_.erase(found);
  return remove_(region);
}

size_t RegionCache::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace cinch::net::ib
