#include <utility>
#include <vector>

#include "interpose/entry/entry.h"

namespace cinch {
namespace {

struct Deferred {
  std::shared_ptr<CommState> comm;
  Slot* slot;
  AllReduceCall call;
};

struct Noted {
  std::shared_ptr<CommState> comm;
  Signature signature;
};

struct OpenGroup {
  int depth = 0;
  std::vector<Deferred> calls;
  std::vector<Noted> collectives;
};

thread_local OpenGroup group;

// The group ends now: hands out what it holds; nothing while an outer one is still open.
OpenGroup closeGroup() {
  if (group.depth > 0) --group.depth;
  return group.depth > 0 ? OpenGroup() : std::exchange(group, OpenGroup());
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

void noteInGroup(const std::shared_ptr<CommState>& comm, const Signature& signature) {
  if (groupIsOpen()) group.collectives.push_back({comm, signature});
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
  OpenGroup closed = closeGroup();
  return runDeferred(closed.calls, CINCH_FORWARD(CINCH_REAL(), GroupEnd));
}

// A simulated group launches nothing, and one rank may simulate alone: it leaves no trace.
CINCH_EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  const EntryGuard guard;
  if (guard.outermost())
    for (const Noted& noted : closeGroup().collectives) noted.comm->takeBack(noted.signature);
  return CINCH_FORWARD(CINCH_REAL(), GroupSimulateEnd, info);
}
