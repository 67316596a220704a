// Memory that devices may reach. NCCL makes the same buffers known for many connections, and
// telling a device takes it milliseconds: a range that one registered region holds is registered
// once.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <mutex>

#include "common/result.h"
#include "net_plugin/ib/verbs_api.h"

namespace cinch::net::ib {

// Of one protection domain. Thread-safe. All regions have to be released before it is destroyed.
class RegionCache {
 public:
  // Registers whole pages at the device; an error keeps nothing.
  using Register = std::function<Result<ibv_mr*>(void* data, size_t nBytes)>;
  using Deregister = std::function<Result<void>(ibv_mr* region)>;

  RegionCache(Register add, Deregister remove, size_t pageBytes);

  // A region that holds all of the range, which stays the caller's. To be released as often as it
  // was acquired.
  Result<ibv_mr*> acquire(const void* data, size_t nBytes);
  Result<void> release(ibv_mr* region);

  size_t size() const;

 private:
  struct Entry {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    ibv_mr* region = nullptr;
    size_t uses = 0;
  };

  const Register add_;
  const Deregister remove_;
  const uintptr_t pageBytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;
};

}  // namespace cinch::net::ib
