#include <vector>

#include "interpose/entry/entry.h"

namespace cinch {
namespace {

struct Deferred {
  std::shared_ptr<CommState> comm;
  Slot* slot;
  AllReduceCall call;
};

struct OpenGroup {
  int depth = 0;
  std::vector<Deferred> calls;
};

thread_local OpenGroup group;

// Moves the deferred calls out of a group that ends now; empty while an outer one is still open.
std::vector<Deferred> closeGroup() {
  if (group.depth > 0) --group.depth;
  return group.depth > 0 ? std::vector<Deferred>() : std::move(group.calls);
}

ncclResult_t runDeferred(std::vector<Deferred>& calls, ncclResult_t grouped) {
  ncclResult_t result = grouped;
  for (Deferred& deferred : calls) {
    if (result == ncclSuccess)
      result = runAllReduce(*deferred.comm, *deferred.slot, deferred.call);
    else
      // One call of the group is lost on this rank, so its communicator cannot go on.
      deferred.comm->fail(
          errorf(static_cast<Status>(result), "its group failed with NCCL error %d", result));
  }
  return result;
}

}  // namespace

thread_local int EntryGuard::depth_ = 0;

bool groupIsOpen() {
  return group.depth > 0;
}

void deferToGroupEnd(std::shared_ptr<CommState> comm, Slot& slot, const AllReduceCall& call) {
  group.calls.push_back({std::move(comm), &slot, call});
}

}  // namespace cinch

using namespace cinch;

CINCH_EXPORT ncclResult_t ncclGroupStart() {
  const EntryGuard guard;
  const ncclResult_t result = CINCH_FORWARD(CINCH_REAL(), GroupStart);
  if (guard.outermost() && result == ncclSuccess) ++group.depth;
  return result;
}

CINCH_EXPORT ncclResult_t ncclGroupEnd() {
  const EntryGuard guard;
  if (!guard.outermost()) return CINCH_FORWARD(CINCH_REAL(), GroupEnd);
  std::vector<Deferred> calls = closeGroup();
  return runDeferred(calls, CINCH_FORWARD(CINCH_REAL(), GroupEnd));
}

// A simulated group launches nothing, so its deferred calls are dropped too.
CINCH_EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  const EntryGuard guard;
  if (guard.outermost()) closeGroup();
  return CINCH_FORWARD(CINCH_REAL(), GroupSimulateEnd, info);
}
