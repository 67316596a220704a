#include "interpose/execute/checkup.h"

#include <span>
#include <utility>

#include "common/log.h"
#include "interpose/execute/examine.h"
#include "interpose/execute/judgement.h"
#include "interpose/real/nccl_try.h"

namespace cinch {
namespace {

// Behind its last call, which is on `stream`.
void passFromNowOn(const CommState& comm, Slot& slot, void* stream) {
  slot.phase = SlotPhase::inaccurate;
  slot.residuals.giveBack(stream);
  CINCH_WARN("GUARD", "%s: %s passes from here on: 8 bits are not enough for it", comm.name.c_str(),
             slot.name.c_str());
}

Result<void> follow(CommState& comm, Slot& slot, std::span<const uint8_t> bytes) {
  const auto advice =
      decodeAdvice(bytes, slot.identity, wire::ShardLayout::tilesOf(slot.plan.bucketElems()));
  CINCH_TRY(advice);
  slot.checkup->mustPass = advice.value().kind == Advice::Kind::pass;
  if (advice.value().kind != Advice::Kind::change) return {};
  const RelaxedCapture relaxed(*comm.resources.device);
  const CurrentDevice current(*comm.resources.device, comm.resources.cudaDevice);
  return slot.changePlan(*comm.resources.device, advice.value().plan);
}

// The next call is to be examined: on all ranks, as its number and what is in force are the same.
bool isDue(const Checkup& checkup) {
  return !checkup.examined && checkup.schedule.examines(checkup.nextCall);
}

// What is in force from this call on.
Result<void> followDecisions(BatchItem& item) {
  Checkup& checkup = *item.slot->checkup;
  if (!checkup.examined) return {};
  const auto decided =
      item.comm->decisions.take(precisionTopic(*item.slot, *checkup.examined), item.number);
  CINCH_TRY(decided);
  if (!decided.value()) return {};
  checkup.examined.reset();
  return follow(*item.comm, *item.slot, *decided.value());
}

bool hasCheckup(const BatchItem& item) {
  return item.slot->checkup != nullptr && item.captureId == 0 && !item.connectOnly;
}

const CollectivePlan& planOf(const BatchItem& item) {
  if (item.captureId != 0) return item.slot->capturedPlan();
  return item.mode.isStateless() ? *item.slot->statelessPlan : item.slot->plan;
}

// It is examined for what its codes would be with the feedback that they need: the program gets the
// exact result, also where what follows is known and nothing is examined.
bool isExact(const BatchItem& item) {
  return hasCheckup(item) && !item.mode.isStateless() && !item.mode.hasFeedback &&
         item.slot->rule.gain > 0;
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

Result<void> followOpening(CommState& comm, Slot& slot, std::span<const uint8_t> bytes) {
  return slot.checkup == nullptr || bytes.empty() ? Result<void>() : follow(comm, slot, bytes);
}

bool willBeExamined(const BatchItem& item, uint64_t nBefore) {
  if (!hasCheckup(item)) return false;
  const Checkup& checkup = *item.slot->checkup;
  return checkup.schedule.examines(checkup.nextCall + nBefore);
}

Result<void> beginCall(BatchItem& item) {
  item.plan = planOf(item);
  if (!hasCheckup(item)) return {};
  Checkup& checkup = *item.slot->checkup;
  CINCH_TRY(followDecisions(item));
  if (!item.mode.isStateless()) item.plan = item.slot->planInForce();
  // What follows from an examination is known where a plan is replayed.
  if (isDue(checkup) && !item.comm->decisions.isReplayed()) item.examined = checkup.nextCall;
  return {};
}

Result<void> endCall(BatchItem& item) {
  if (!hasCheckup(item)) return {};
  Checkup& checkup = *item.slot->checkup;
  if (isDue(checkup)) checkup.examined = checkup.nextCall;
  ++checkup.nextCall;
  if (checkup.mustPass && item.slot->phase == SlotPhase::active)
    passFromNowOn(*item.comm, *item.slot, item.call.stream);
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
  if (!item.examined && !isExact(item)) return {};
  const Collective& call = item.call;
  CommState& comm = *item.comm;
  if (item.examined) beginAudit(comm, item.exam, call);
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

Result<void> handOverExact(const BatchItem& item) {
  if (!isExact(item)) return {};
  const DeviceTable& device = *item.comm->resources.device;
  CINCH_TRY_DEVICE(device,
                   device.copyAsync(item.call.recv, item.comm->workspace.exact(),
                                    item.slot->plan.inputBytes(), item.call.stream),
                   "cannot copy an exact result");
  return {};
}

}  // namespace cinch
