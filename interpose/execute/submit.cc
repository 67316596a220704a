#include "interpose/execute/submit.h"

#include "interpose/comm/caller.h"
#include "interpose/execute/call_mode.h"
#include "interpose/execute/examine.h"
#include "interpose/execute/logged_call.h"
#include "interpose/execute/prepare.h"
#include "interpose/real/nccl_try.h"

namespace cinch {
namespace {

struct Decided {
  Signature signature;
  CommState::Decision decision;
  CallMode mode{};
};

// Shows the call in profilers under the name of the function that the program called.
class ProfilerRange {
 public:
  ProfilerRange(const DeviceTable& device, CallKind kind) : device_(device) {
    device_.rangePush(functionName(kind));
  }
  ~ProfilerRange() { device_.rangePop(); }
  ProfilerRange(const ProfilerRange&) = delete;

 private:
  const DeviceTable& device_;
};

bool isEightBitFloat(ncclDataType_t type) {
  return type == ncclFloat8e4m3 || type == ncclFloat8e5m2;
}

// False where NCCL has a reason to refuse the call, as far as that can be told without it.
bool isSound(const CommState& comm, const Collective& call) {
  const bool knownOp = call.op < ncclNumOps || comm.ops.knows(call.op, call.type);
  return hasBuffers(call, comm.rank) && bytesOf(call.type) != 0 && call.root >= 0 &&
         call.root < comm.nRanks &&
         (!reduces(call.kind) || (knownOp && !isEightBitFloat(call.type)));
}

// What is not known to be a gradient passes, and so does a slot that is not ready; Reason::none
// stays where it is.
Reason readiness(const std::shared_ptr<CommState>& state, const CommState::Decision& decision) {
  CommState& comm = *state;
  if (decision.captureId != 0) return Reason::none;
  const auto known = examineSite(state, decision);
  if (!known.ok()) comm.fail(known.error());
  if (!known.ok() || known.value() != Reason::none)
    return known.ok() ? known.value() : Reason::none;
  if (decision.slot == nullptr) return Reason::preparing;  // it has one from its next call on
  const auto ready = isReady(comm, *decision.slot, decision.number);
  if (!ready.ok()) comm.fail(ready.error());
  if (!ready.ok() || ready.value()) return Reason::none;
  switch (decision.slot->phase) {
    case SlotPhase::refused:
      return Reason::voted;
    case SlotPhase::inaccurate:
      return Reason::inaccurate;
    default:
      return Reason::preparing;
  }
}

// All ranks do this alike: whether a slot is ready, and which calls are captured, is the same on
// all.
Result<void> select(const std::shared_ptr<CommState>& comm, Decided& decided,
                    const PeriodStart& start) {
  CommState::Decision& decision = decided.decision;
  const bool isReady = decision.reason == Reason::none;
  if (decision.captureId != 0 || !(isReady || decision.reason == Reason::preparing)) return {};
  const auto mode = chooseMode(comm, decision, isReady, start);
  CINCH_TRY(mode);
  decided.mode = mode.value();
  if (isReady && decided.mode.sending == Sending::plain) decision.reason = Reason::slower;
  return {};
}

// What tells threads apart: losses and statistics of a few values do not.
void noteCaller(const CommState& comm, const Collective& call) {
  constexpr uint64_t kFewBytes = 32 << 10;
  if (comm.nRanks == 1 || !reduces(call.kind) || !isCompressibleType(call.type)) return;
  if (call.count * bytesOf(call.type) < kFewBytes) return;
  noteReduction(comm.resources, currentCaller());
}

// Nothing where nobody looks at it.
ScatteredShard shardOf(const CommState& comm, const Collective& call, const SiteExam& exam) {
  const bool isAutograd = currentCaller() == Caller::autograd;
  if (call.kind != CallKind::reduceScatter || !isAutograd || !exam) return {};
  return {&comm.resources, call.recv, call.count, exam.step->sharedFinding(exam.site)};
}

PeriodStart startAt(const CommState& comm, const CommState::Decision& decision,
                    const Collective& call) {
  const OpenGroup* group = OpenGroup::of(comm.real);
  return {decision.number, call.stream, group == nullptr ? 0 : group->number};
}

Decided decide(const std::shared_ptr<CommState>& state, const Collective& call) {
  CommState& comm = *state;
  const OpClass op = reduces(call.kind) ? comm.classOf(call.op, call.type) : OpClass::none;
  Decided decided{{call.kind, op, call.type, call.count}, {}};
  decided.decision = comm.decide(decided.signature, call.stream, call.send, call.root);
  CommState::Decision& decision = decided.decision;
  if (decision.isNumbered) {
    auto begun = beginNumbered(comm, decided.signature, decision);
    if (begun.ok()) begun = followPeriods(state, decision, startAt(comm, decision, call));
    if (!begun.ok()) {
      // Nothing may pass, either: others may not, and an abort may have freed the communicator.
      comm.fail(begun.error());
      decision.isNumbered = false;
      decision.reason = Reason::none;
      return decided;
    }
  }
  if (decision.reason == Reason::none) {
    decision.reason = readiness(state, decision);
    const auto done = select(state, decided, startAt(comm, decision, call));
    if (!done.ok()) comm.fail(done.error());
  }
  decided.mode.isNumbered = decision.isNumbered;
  // NCCL says what is wrong with a call that lacks a buffer.
  if (decision.reason == Reason::none && !hasBuffers(call, comm.rank))
    decision.reason = Reason::incomplete;
  if (decision.counted) comm.noteOutcome(decided.signature, decision.reason);
  if (decision.call != nullptr)
    decision.call->count(static_cast<size_t>(decision.reason), call.count * bytesOf(call.type));
  return decided;
}

// An error where the communicator has failed.
ncclResult_t compress(const std::shared_ptr<CommState>& comm, OpenGroup* group,
                      const Decided& decided, const Collective& call) {
  if (const ncclResult_t health = comm->health(); health != ncclSuccess) return health;
  const ProfilerRange range(*comm->resources.device, call.kind);
  BatchItem item{.comm = comm,
                 .slot = decided.decision.slot,
                 .call = call,
                 .factor = comm->factorOf(call.op, call.type),
                 .captureId = decided.decision.captureId,
                 .mode = decided.mode,
                 .exam = decided.decision.exam,
                 .number = decided.decision.number};
  if (group == nullptr) {
    comm->confirm();
    return Batch({&item, 1}, comm->real).run(false);
  }
  group->defer(std::move(item));
  return ncclSuccess;
}

ncclResult_t passNow(const std::shared_ptr<CommState>& comm, const Decided& decided,
                     const Collective& call, const Pass& pass) {
  const CommState::Decision& decision = decided.decision;
  beginMeasured(*comm, decision, call);
  const ncclResult_t result = pass();
  // A call that one rank got wrong and repeats must not count twice.
  if (isRefused(result)) {
    if (decision.counted) takeBack(*comm, decided.signature, decided.mode);
    return result;
  }
  comm->confirm();
  comm->hear(decided.signature, call.recv, call.stream, result);
  if (!isMeasured(decision)) return result;
  BatchItem item = unreadyItem(comm, decision, call);
  return prepareAll({&item, 1}, comm->real, result);
}

ncclResult_t passInGroup(const std::shared_ptr<CommState>& comm, OpenGroup& group,
                         const Decided& decided, const Collective& call, const Pass& pass) {
  beginMeasured(*comm, decided.decision, call);
  const ncclResult_t result = group.pass({.comm = comm->comm,
                                          .op = call.op,
                                          .isEmpty = call.count == 0,
                                          .isSound = isSound(*comm, call)},
                                         pass);
  if (comm->layers() != nullptr) group.hearLater(comm, decided.signature, call);
  if (isMeasured(decided.decision)) group.prepareLater(comm, decided.decision, call);
  return result;
}

ncclResult_t carryOut(const std::shared_ptr<CommState>& comm, const Decided& decided,
                      const Collective& call, const Pass& pass) {
  OpenGroup* group = OpenGroup::of(comm->real);
  if (group != nullptr && decided.decision.counted)
    group->note(comm, decided.signature, decided.mode);
  if (decided.decision.reason == Reason::none) return compress(comm, group, decided, call);
  comm->countPass(decided.decision.reason, call.count * bytesOf(call.type));
  return group == nullptr ? passNow(comm, decided, call, pass)
                          : passInGroup(comm, *group, decided, call, pass);
}

}  // namespace

ncclResult_t submit(const std::shared_ptr<CommState>& comm, const Collective& call,
                    const Pass& pass) {
  if (const auto settled = comm->settle(); !settled.ok())
    return static_cast<ncclResult_t>(settled.error().status);
  noteCaller(*comm, call);
  const Decided decided = decide(comm, call);
  noteScattered(shardOf(*comm, call, decided.decision.exam));
  const LoggedCall logged(CallLog::instance(), *comm, call);
  return logged.end(carryOut(comm, decided, call, pass), decided.decision.reason);
}

}  // namespace cinch
