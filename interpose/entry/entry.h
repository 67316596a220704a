// What all entry points share: the guard against re-entry and the way to the real NCCL. An entry
// point is a few lines: guard, look up, follow, forward.
#pragma once

#include <memory>

#include "interpose/comm/registry.h"
#include "interpose/execute/open_group.h"

// Makes a function one of the exported ones; exports.map lists them.
#define CINCH_EXPORT extern "C" __attribute__((visibility("default")))

namespace cinch {

// NCCL calls some of its own public functions, which lead back here: only the outermost call of a
// thread is the user's.
class EntryGuard {
 public:
  EntryGuard() : outermost_(depth_++ == 0) {}
  ~EntryGuard() { --depth_; }
  EntryGuard(const EntryGuard&) = delete;
  bool outermost() const { return outermost_; }

 private:
  static thread_local int depth_;
  const bool outermost_;
};

// The state of a communicator that Cinch follows, for the user's own calls; else null.
inline std::shared_ptr<CommState> followed(const EntryGuard& guard, ncclComm_t comm) {
  return guard.outermost() ? Registry::instance().find(comm) : nullptr;
}

// Tells the open group of `real`, if there is one, what NCCL said of a call in it.
inline ncclResult_t judged(const EntryGuard& guard, const RealNccl* real, ncclResult_t result) {
  if (OpenGroup* group = guard.outermost() && real != nullptr ? OpenGroup::of(*real) : nullptr)
    group->judge(result);
  return result;
}

}  // namespace cinch

// The NCCL of whoever called this entry point.
#define CINCH_REAL() ::cinch::realNcclOf(__builtin_return_address(0))

// Calls a function of `real` (which may be null, or lack it).
#define CINCH_FORWARD(real, name, ...) \
  ((real) != nullptr && (real)->name != nullptr ? (real)->name(__VA_ARGS__) : ncclSystemError)
