// Communicators that are being made from another one.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "interpose/real/real_nccl.h"

namespace cinch {

// A communicator that a real Split or Shrink is making from another one. NCCL writes its handle to
// `*handle` when it is done, which may be long after the call.
struct Birth {
  ncclComm_t* handle;
  uint64_t ordinal;  // how many were made from the parent before
  int64_t part;      // tells apart what one call makes: the colour
};

// Any thread may call these.
class Births {
 public:
  // NCCL has accepted a call of `kind` that makes `part` at `handle`. Births of a kind are numbered
  // alike on all ranks that make them: every rank calls each Split, but those that a Shrink
  // excludes do not call it.
  Birth number(ncclComm_t* handle, int64_t kind, int64_t part) {
    const std::lock_guard lock(mutex_);
    return {handle, nMade_[kind]++, part};
  }

  // It is still to be made: kept until NCCL reports that it is done.
  void await(const Birth& birth) {
    const std::lock_guard lock(mutex_);
    awaited_.push_back(birth);
  }

  // Calls follow(birth) for all that are awaited, under no lock: that may take a minute, in which a
  // watchdog asks how the parent is. False where another thread has asked before and is still at
  // it: what NCCL reports as made must be known here before the program is told.
  template <class Follow>
  bool take(const Follow& follow) {
    std::vector<Birth> births;
    {
      const std::lock_guard lock(mutex_);
      if (isFollowing_) return false;
      births.swap(awaited_);
      if (births.empty()) return true;
      isFollowing_ = true;
    }
    for (const Birth& birth : births) follow(birth);
    const std::lock_guard lock(mutex_);
    isFollowing_ = false;
    return true;
  }

 private:
  std::mutex mutex_;
  std::vector<Birth> awaited_;
  std::map<int64_t, uint64_t> nMade_;  // by kind
  bool isFollowing_ = false;           // some thread, outside of the lock
};

}  // namespace cinch
