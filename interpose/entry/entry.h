// What all entry points share: the guard against re-entry, the way to the real NCCL, and the open
// group. An entry point is a few lines: guard, look up, decide, pass or run.
#pragma once

#include <memory>

#include "interpose/comm/registry.h"
#include "interpose/execute/all_reduce.h"

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

// Returns `result`, having taken the call back if NCCL refused its arguments: a call that one rank
// got wrong and repeats must not count twice.
inline ncclResult_t unlessRefused(CommState& comm, const Signature& signature,
                                  ncclResult_t result) {
  if (result == ncclInvalidArgument || result == ncclInvalidUsage) comm.takeBack(signature);
  return result;
}

// True while the calling thread has a group open.
bool groupIsOpen();

// Remembers, while a group is open, a collective that was counted, in case it is only simulated.
void noteInGroup(const std::shared_ptr<CommState>& comm, const Signature& signature);

// Keeps an AllReduce that the policy wants compressed until the outermost ncclGroupEnd: it then
// runs after all that the group hands to NCCL, on every rank alike.
void deferToGroupEnd(std::shared_ptr<CommState> comm, Slot& slot, const AllReduceCall& call);

}  // namespace cinch

// The NCCL of whoever called this entry point.
#define CINCH_REAL() ::cinch::realNcclOf(__builtin_return_address(0))

// Calls a function of `real` (which may be null, or lack it).
#define CINCH_FORWARD(real, name, ...) \
  ((real) != nullptr && (real)->name != nullptr ? (real)->name(__VA_ARGS__) : ncclSystemError)
