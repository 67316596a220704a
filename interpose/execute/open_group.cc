#include "interpose/execute/open_group.h"

#include <algorithm>
#include <utility>

#include "interpose/comm/family.h"
#include "interpose/execute/checkup.h"
#include "interpose/execute/examine.h"
#include "interpose/execute/prepare.h"
#include "interpose/real/nccl_try.h"

namespace cinch {
namespace {

// A thread has one NCCL, hardly ever two.
thread_local std::vector<std::unique_ptr<OpenGroup>> openGroups;

// True where the slot of `item` is to be connected.
Result<bool> step(BatchItem& item) {
  CINCH_TRY(awaitLaunch(*item.comm));
  endMeasured(item.comm, item.exam, item.call, item.isPlaced);
  item.comm->decisions.noteUnready(item.number);
  if (!item.takesStep) return false;
  return takeNextStep(*item.comm, *item.slot, item.number, item.call.stream);
}

// Of each communicator one slot. They connect one after another, whether or not a rank has put
// their calls into one group.
std::vector<BatchItem> takeFirstOfEach(std::vector<BatchItem>& items) {
  std::vector<BatchItem> first, rest;
  for (BatchItem& item : items) {
    const bool isThere =
        std::ranges::any_of(first, [&](const BatchItem& it) { return it.comm == item.comm; });
    (isThere ? rest : first).push_back(std::move(item));
  }
  items = std::move(rest);
  return first;
}

// Leaves those whose ranks are at their calls. The ranks of one thread have all arrived before it
// waits for others.
ncclResult_t keepWhereMet(std::vector<BatchItem>& items) {
  ncclResult_t result = ncclSuccess;
  const Clock::time_point begin = Clock::now();
  Deadline latest = kNoDeadline;
  std::erase_if(items, [&](BatchItem& item) {
    return item.comm->hasFailed() || !item.comm->decisions.meetings().mayBeAt(item.number) ||
           !arriveToConnect(*item.comm, *item.slot, item.number);
  });
  std::erase_if(items, [&](BatchItem& item) {
    const Deadline patience = begin + item.comm->decisions.meetings().patience();
    const auto met =
        haveMetToConnect(*item.comm, *item.slot, item.number, std::min(patience, latest));
    if (!met.ok()) result = item.comm->fail(met.error());
    const bool hasMet = met.ok() && met.value();
    // Others are in NCCL from now on, and may have to come to what is waited for here.
    if (hasMet) latest = std::min(latest, Clock::now() + Meetings::kLeast);
    return !hasMet;
  });
  // What has ended meanwhile does not end the others.
  std::erase_if(items, [&](const BatchItem& item) { return item.comm->hasFailed(); });
  return result;
}

ncclResult_t connect(std::vector<BatchItem>& items, const RealNccl& real) {
  std::erase_if(items, [](const BatchItem& item) {
    if (!needsNoConnections(*item.comm, *item.slot)) return false;
    if (!item.comm->hasFailed()) connected(item.comm, *item.slot);
    return true;
  });
  const ncclResult_t result = keepWhereMet(items);
  if (items.empty()) return result;
  const ncclResult_t ran = Batch(items, real).run(false);
  if (!isFine(ran)) return ran;
  for (BatchItem& item : items) connected(item.comm, *item.slot);
  return result;
}

}  // namespace

OpenGroup* OpenGroup::of(const RealNccl& real) {
  for (const auto& group : openGroups)
    if (group->real_ == &real) return group.get();
  return nullptr;
}

ncclResult_t OpenGroup::start(const RealNccl& real) {
  OpenGroup* group = of(real);
  std::unique_ptr<OpenGroup> outermost;
  if (group == nullptr) outermost.reset(new OpenGroup(real));
  const ncclResult_t started = real.GroupStart();
  if (started != ncclSuccess) return started;
  if (outermost) group = openGroups.emplace_back(std::move(outermost)).get();
  ++group->depth_;
  return ncclSuccess;
}

std::unique_ptr<OpenGroup> OpenGroup::leave(const RealNccl& real) {
  OpenGroup* group = of(real);
  if (group == nullptr || --group->depth_ > 0) return nullptr;
  const auto at = std::find_if(openGroups.begin(), openGroups.end(),
                               [&](const auto& it) { return it.get() == group; });
  std::unique_ptr<OpenGroup> closed = std::move(*at);
  openGroups.erase(at);
  return closed;
}

ncclResult_t OpenGroup::end(const RealNccl& real) {
  const auto closed = leave(real);
  return closed == nullptr ? real.GroupEnd() : closed->launch();
}

void OpenGroup::forget(const RealNccl& real) {
  const auto closed = leave(real);
  if (closed == nullptr) return;
  closed->countBack();
  for (const KeptCall& destroy : closed->opsToDestroy_) destroy();
}

OpenGroup::Member& OpenGroup::memberOf(ncclComm_t comm) {
  for (Member& member : members_)
    if (member.comm == comm) return member;
  return members_.emplace_back(Member{comm, false, {}});
}

// A member may join NCCL's group when all before it have; its own calls stay in their order.
bool OpenGroup::mustWait(const Member& member) const {
  if (member.isJoined) return false;
  if (!member.waiting.empty()) return true;
  for (const Member& earlier : members_) {
    if (&earlier == &member) break;
    if (!earlier.isJoined) return true;
  }
  return false;
}

void OpenGroup::note(const std::shared_ptr<CommState>& comm, const Signature& signature,
                     const CallMode& mode) {
  noted_.push_back({comm, signature, mode});
}

void OpenGroup::defer(BatchItem item) {
  memberOf(item.comm->comm);
  deferred_.push_back(std::move(item));
}

ncclResult_t OpenGroup::pass(const Passing& call, const Pass& pass) {
  if (!call.isSound || call.isEmpty) {
    const ncclResult_t result = pass();
    judge(result);
    return result;
  }
  Member& member = memberOf(call.comm);
  if (mustWait(member)) {
    member.waiting.push_back({call.op, pass.keep()});
    return ncclSuccess;
  }
  const ncclResult_t result = pass();
  member.isJoined = member.isJoined || isFine(result);
  judge(result);
  return result;
}

ncclResult_t OpenGroup::destroyOp(ncclComm_t comm, ncclRedOp_t op, const Pass& destroy) {
  if (!isStillUsed(comm, op)) return destroy();
  opsToDestroy_.push_back(destroy.keep());
  return ncclSuccess;
}

// Kept calls that are examined are reduced by NCCL, too.
bool OpenGroup::isStillUsed(ncclComm_t comm, ncclRedOp_t op) const {
  const auto waits = [&](const Member& member) {
    return member.comm == comm &&
           std::any_of(member.waiting.begin(), member.waiting.end(),
                       [&](const Waiting& waiting) { return waiting.op == op; });
  };
  const auto isDeferred = [&](const BatchItem& item) {
    return item.comm->comm == comm && item.call.op == op;
  };
  return std::any_of(members_.begin(), members_.end(), waits) ||
         std::any_of(deferred_.begin(), deferred_.end(), isDeferred);
}

void OpenGroup::judge(ncclResult_t result) {
  isSpoilt_ = isSpoilt_ || !isFine(result);
}

void OpenGroup::prepareLater(const std::shared_ptr<CommState>& comm,
                             const CommState::Decision& decision, const Collective& call) {
  const auto isOfSlot = [&](const BatchItem& item) {
    return item.takesStep && item.slot == decision.slot;
  };
  BatchItem item = unreadyItem(comm, decision, call);
  const auto first = std::ranges::find_if(unready_, isOfSlot);
  if (first != unready_.end()) {
    // Its step is the last call's, as it is where they are not in a group.
    first->number = decision.number;
    item.takesStep = false;
  }
  unready_.push_back(std::move(item));
}

void OpenGroup::countBack() {
  for (auto noted = noted_.rbegin(); noted != noted_.rend(); ++noted)
    takeBack(*noted->comm, noted->signature, noted->mode);
}

void OpenGroup::inOrderOfMembers(std::vector<BatchItem>& items) {
  const auto place = [this](const BatchItem& item) { return &memberOf(item.comm->comm); };
  std::stable_sort(items.begin(), items.end(),
                   [&](const BatchItem& a, const BatchItem& b) { return place(a) < place(b); });
}

// Everything that NCCL has not recorded yet, in the order of the members.
Result<void> OpenGroup::record(Batch& batch) {
  for (const Member& member : members_) {
    for (const Waiting& waiting : member.waiting)
      CINCH_TRY_NCCL(waiting.call(), "NCCL refused a call of a group");
    CINCH_TRY(batch.recordExchanges(member.comm));
  }
  return {};
}

ncclResult_t OpenGroup::launchDeferred() {
  inOrderOfMembers(deferred_);
  Batch batch(deferred_, *real_);
  const auto begun = batch.begin();
  const auto recorded = begun.ok() ? record(batch) : begun;
  if (recorded.ok()) return batch.run(true);
  const ncclResult_t ended = real_->GroupEnd();
  // Not NCCL's refusal but an abort: what was recorded before it has been launched, without codes.
  // What this rank cannot follow, others may.
  if (!begun.ok() || isFine(ended)) return batch.fail(recorded.error());
  isSpoilt_ = true;
  return ended;
}

void OpenGroup::followAllBirths(ncclResult_t result) {
  if (!isFine(result)) return;
  for (const ComingBirth& coming : births_) {
    CommState& parent = *coming.parent;
    const Birth birth = parent.births.number(coming.handle, coming.kind, coming.part);
    followBirth(parent, birth, result);
  }
}

ncclResult_t OpenGroup::launchAll() {
  if (!isSpoilt_ && !deferred_.empty()) return launchDeferred();
  const ncclResult_t result = real_->GroupEnd();
  // What was kept for a group that NCCL does not refuse after all is lost, and must not be missed.
  if (isSpoilt_ && !deferred_.empty() && isFine(result)) return ncclInvalidUsage;
  isSpoilt_ = isSpoilt_ || isRefused(result);
  return result;
}

ncclResult_t OpenGroup::launch() {
  const ncclResult_t result = launchAll();
  for (const KeptCall& destroy : opsToDestroy_) destroy();
  followAllBirths(result);
  if (isSpoilt_) {
    countBack();
    return result;
  }
  for (const Noted& noted : noted_) noted.comm->confirm();
  for (const auto& [comm, signature, call] : passed_)
    comm->hear(signature, call.recv, call.stream, result);
  inOrderOfMembers(unready_);
  return prepareAll(unready_, *real_, result);
}

BatchItem unreadyItem(const std::shared_ptr<CommState>& comm, const CommState::Decision& decision,
                      const Collective& call) {
  return {.comm = comm,
          .slot = decision.slot,
          .call = call,
          .factor = {},
          .connectOnly = true,
          .exam = decision.exam,
          .number = decision.number,
          .isPlaced = decision.reason != Reason::unplaced,
          .takesStep = decision.slot != nullptr};
}

// Where one communicator fails, the others' slots keep step with their peers'.
ncclResult_t prepareAll(std::span<BatchItem> unready, const RealNccl& real, ncclResult_t result) {
  std::vector<BatchItem> toConnect;
  for (BatchItem& item : unready) {
    const auto connects = step(item);
    if (!connects.ok())
      result = item.comm->fail(connects.error());
    else if (connects.value())
      toConnect.push_back(item);
  }
  while (!toConnect.empty()) {
    std::vector<BatchItem> next = takeFirstOfEach(toConnect);
    const ncclResult_t ran = connect(next, real);
    if (isFine(result) && !isFine(ran)) result = ran;
  }
  return result;
}

}  // namespace cinch
