#include "interpose/execute/checkup.h"

#include "common/log.h"
#include "interpose/execute/examine.h"
#include "interpose/execute/judgement.h"
#include "interpose/real/nccl_try.h"

namespace cinch {
namespace {

void passFromNowOn(const CommState& comm, Slot& slot) {
  slot.phase = SlotPhase::inaccurate;
  CINCH_WARN("GUARD", "%s: %s passes from here on: 8 bits are not enough for it", comm.name.c_str(),
             slot.name.c_str());
}

Result<std::vector<uint8_t>> wordBefore(CommState& comm, Slot& slot, uint64_t call) {
  if (comm.commPlan.isReplayed()) return comm.commPlan.advice(slot.identity, call);
  slot.checkup->isAwaited.store(true);
  auto said = comm.agreement().awaitPublication(
      judgementTopic(slot, call), static_cast<int>(processParams().params.voteTimeout));
  if (!said.ok())
    return errorf(said.error().status, "%s: no word on its precision: %s", slot.name.c_str(),
                  said.error().message.c_str());
  comm.commPlan.noteAdvice(slot.identity, call, said.value());
  return said;
}

Result<void> hear(CommState& comm, Slot& slot, uint64_t call) {
  const auto said = wordBefore(comm, slot, call);
  CINCH_TRY(said);
  const auto advice = decodeAdvice(said.value(), slot.identity,
                                   wire::ShardLayout::tilesOf(slot.plan.bucketElems()));
  CINCH_TRY(advice);
  slot.checkup->mustPass = advice.value().kind == Advice::Kind::pass;
  if (advice.value().kind != Advice::Kind::change) return {};
  const RelaxedCapture relaxed(*comm.resources.device);
  const CurrentDevice current(*comm.resources.device, comm.resources.cudaDevice);
  return slot.changePlan(*comm.resources.device, advice.value().plan);
}

bool hasCheckup(const BatchItem& item) {
  return item.slot->checkup != nullptr && item.captureId == 0 && !item.connectOnly;
}

const CollectivePlan& planOf(const BatchItem& item) {
  if (item.captureId != 0) return item.slot->capturedPlan();
  return item.turn.isQuick() ? *item.slot->quickPlan : item.slot->plan;
}

TallyLaunch tallyOf(const BatchItem& item, const void* values) {
  return {.values = values,
          .others = nullptr,
          .count = item.plan.bucketElems(),
          .type = item.plan.type,
          .factor = {},
          .tallies = nullptr};
}

}  // namespace

bool willBeExamined(const BatchItem& item, uint64_t nBefore) {
  if (!hasCheckup(item)) return false;
  const Checkup& checkup = *item.slot->checkup;
  return checkup.schedule.examines(checkup.nextCall + nBefore);
}

void sayOpening(const BatchItem& item) {
  const Checkup* const checkup = item.slot->checkup.get();
  const bool isHeard = checkup != nullptr && checkup->schedule.hasOpening;
  if (isHeard && item.comm->rank == 0 && !item.comm->commPlan.isReplayed())
    openInBackground(item.comm, *item.slot);
}

Result<void> beginCall(BatchItem& item) {
  item.plan = planOf(item);
  if (!hasCheckup(item)) return {};
  Checkup& checkup = *item.slot->checkup;
  const uint64_t call = checkup.nextCall;
  // A group that NCCL refuses is repeated: its words have been heard then.
  if (checkup.schedule.hears(call) && checkup.nHeard <= call) {
    CINCH_TRY(hear(*item.comm, *item.slot, call));
    checkup.nHeard = call + 1;
  }
  if (!item.turn.isQuick()) item.plan = item.slot->planInForce();
  // What would follow from an examination is known where a plan is replayed.
  const bool isReplayed = item.comm->commPlan.isReplayed();
  if (!isReplayed && checkup.schedule.examines(call)) item.examined = call;
  return {};
}

Result<void> endCall(BatchItem& item) {
  if (!hasCheckup(item)) return {};
  ++item.slot->checkup->nextCall;
  if (item.slot->checkup->mustPass && item.slot->phase == SlotPhase::active)
    passFromNowOn(*item.comm, *item.slot);
  if (item.examined && item.comm->rank == 0)
    judgeInBackground(item.comm, *item.slot, *item.examined, item.isMeasured);
  return {};
}

Result<void> noteInput(BatchItem& item) {
  if (!item.examined || item.comm->rank != 0) return {};
  Examiner& examiner = item.slot->checkup->examiner;
  item.isMeasured = examiner.isFree();
  if (!item.isMeasured) return {};
  TallyLaunch tally = tallyOf(item, item.call.send);
  tally.factor = item.factor;
  return examiner.noteInput(*item.comm->resources.device, tally, item.slot->state(),
                            item.call.stream);
}

Result<void> reduceExactly(const BatchItem& item) {
  if (!item.examined) return {};
  const Collective& call = item.call;
  CommState& comm = *item.comm;
  beginAudit(comm, item.exam, call);
  CINCH_TRY_NCCL(comm.real.AllReduce(call.send, comm.workspace.exact(), call.count, call.type,
                                     call.op, comm.comm, call.stream),
                 "cannot reduce a bucket exactly");
  return {};
}

Result<void> noteResult(const BatchItem& item) {
  if (item.examined) endAudit(item.comm, item.exam, item.call, item.comm->workspace.exact());
  if (!item.isMeasured) return {};
  TallyLaunch tally = tallyOf(item, item.comm->workspace.exact());
  tally.others = item.call.recv;
  return item.slot->checkup->examiner.noteResult(*item.comm->resources.device, tally,
                                                 item.slot->state(), item.call.stream);
}

}  // namespace cinch
