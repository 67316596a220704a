#include "interpose/execute/residuals.h"

#include <algorithm>

#include "common/log.h"

namespace cinch {
namespace {

using IsMeant = std::function<bool(const Slot&)>;

// On `stream`, behind all calls that may use them.
Result<void> giveBackWhere(CommState& comm, const IsMeant& isMeant, void* stream) {
  const auto isHeld = [&](const auto& slot) { return slot->residuals.areHeld() && isMeant(*slot); };
  if (std::ranges::none_of(comm.slots(), isHeld)) return {};
  CINCH_TRY(comm.workspace.begin(stream, 0));
  for (const auto& slot : comm.slots())
    if (isHeld(slot)) slot->residuals.giveBack(stream);
  return comm.workspace.end(stream, 0);
}

// Of the layout of now: others will hardly be called again.
bool isOfEpoch(const Slot& slot, uint32_t epoch) {
  return slot.residuals.epoch() == epoch;
}

bool gotReady(const Slot& slot) {
  return slot.phase != SlotPhase::idle && slot.phase != SlotPhase::refused &&
         slot.phase != SlotPhase::inaccurate;
}

Result<void> takeWhere(CommState& comm, const IsMeant& isMeant) {
  for (const auto& slot : comm.slots())
    if (isMeant(*slot)) CINCH_TRY(slot->takeResiduals(*comm.resources.device));
  return {};
}

}  // namespace

void askForResiduals(CommState& comm, Slot* only, uint64_t topic) {
  const RelaxedCapture relaxed(*comm.resources.device);
  const CurrentDevice current(*comm.resources.device, comm.resources.cudaDevice);
  const uint32_t epoch = latestEpoch(comm.slots());
  const Result<void> taken = takeWhere(comm, [&](const Slot& slot) {
    return gotReady(slot) && (only == nullptr ? isOfEpoch(slot, epoch) : &slot == only);
  });
  if (taken.ok())
    comm.resumeResiduals();
  else
    CINCH_WARN("EXEC", "%s: no call goes with error feedback: rank %d has no memory for it: %s",
               comm.name.c_str(), comm.rank, taken.error().message.c_str());
  if (comm.decisions.isReplayed()) return;
  // If the channel has ended, nothing comes of it.
  (void)comm.agreement().pool(topic, std::vector<uint64_t>{taken.ok() ? 1u : 0u});
}

Result<void> giveResidualsBack(CommState& comm, Slot* only, void* stream) {
  return giveBackWhere(
      comm, [&](const Slot& slot) { return only == nullptr || &slot == only; }, stream);
}

Result<void> takeResidualsToBegin(CommState& comm, Slot& slot, void* stream) {
  const bool areHeld = !comm.selections.isOn || comm.selections.ofSteps.mayHoldResiduals();
  if (!areHeld) return {};
  const uint32_t epoch = latestEpoch(comm.slots());
  CINCH_TRY(giveBackWhere(
      comm, [&](const Slot& other) { return !isOfEpoch(other, epoch); }, stream));
  return slot.takeResiduals(*comm.resources.device);
}

}  // namespace cinch
