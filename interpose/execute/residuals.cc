#include "interpose/execute/residuals.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "common/log.h"

namespace cinch {
namespace {

using IsMeant = std::function<bool(const Slot&)>;

// On `stream`, behind all calls that may use them.
Result<void> giveBackWhere(CommState& comm, const IsMeant& isMeant, void* stream) {
  const auto isHeld = [&](const auto& slot) { return slot->residuals.areHeld() && isMeant(*slot); };
  // After a failure something may use them for ever.
  if (comm.workspace.isStranded() || std::ranges::none_of(comm.slots(), isHeld)) return {};
  const RelaxedCapture relaxed(*comm.resources.device);
  const CurrentDevice current(*comm.resources.device, comm.resources.cudaDevice);
  CINCH_TRY(comm.workspace.begin(stream, 0));
  for (const auto& slot : comm.slots())
    if (isHeld(slot)) slot->residuals.giveBack(stream);
  return comm.workspace.end(stream, 0);
}

// The same on all ranks, as all that it depends on.
bool isAskedOf(const Slot& slot, const Slot* only, uint64_t since) {
  if (only != nullptr) return &slot == only;
  return slot.phase == SlotPhase::active && slot.made.nCalls > 0 && slot.made.number >= since;
}

// All or none.
Result<void> takeAll(const DeviceTable& device, const std::vector<Slot*>& slots) {
  const RelaxedCapture relaxed(device);
  for (Slot* slot : slots) {
    const auto taken = slot->takeResiduals(device);
    if (taken.ok()) continue;
    for (Slot* other : slots) other->residuals.giveBackUnused();
    return taken;
  }
  return {};
}

}  // namespace

Result<void> askForResiduals(CommState& comm, const Selector::Residuals& held,
                             const ResidualQuestion& question, Slot* only, void* stream) {
  const CurrentDevice current(*comm.resources.device, comm.resources.cudaDevice);
  const auto isInUse = [&](const Slot& slot) { return held.hold(slot.made.question); };
  const auto isLeft = [&](const Slot& slot) {
    return (only == nullptr || &slot == only) && !isInUse(slot);
  };
  // Those of an older layout make room.
  CINCH_TRY(giveBackWhere(comm, isLeft, stream));
  std::vector<Slot*> slots;
  for (const auto& slot : comm.slots()) {
    if (!isLeft(*slot)) continue;
    const bool isAsked = isAskedOf(*slot, only, question.since);
    slot->made.question = isAsked ? question.number : 0;
    if (isAsked) slots.push_back(slot.get());
  }
  const Result<void> taken = takeAll(*comm.resources.device, slots);
  if (!taken.ok())
    CINCH_WARN("EXEC", "%s: no error feedback: rank %d has no memory for it: %s", comm.name.c_str(),
               comm.rank, taken.error().message.c_str());
  if (question.isAnswered || comm.decisions.isReplayed()) return {};
  const bool isSaid =
      comm.agreement().pool(question.topic, std::vector<uint64_t>{taken.ok() ? 1u : 0u}).ok();
  // The channel has ended: nothing comes of it.
  if (!isSaid)
    for (Slot* slot : slots) slot->residuals.giveBackUnused();
  return {};
}

Result<void> giveResidualsBack(CommState& comm, Slot* only, void* stream) {
  return giveBackWhere(
      comm, [&](const Slot& slot) { return only == nullptr || &slot == only; }, stream);
}

// Those of an older layout will hardly be called again, and would start from zero.
Result<void> takeResidualsToBegin(CommState& comm, Slot& slot, void* stream) {
  if (comm.selections.isOn) return {};
  const uint32_t epoch = latestEpoch(comm.slots());
  CINCH_TRY(giveBackWhere(
      comm, [&](const Slot& other) { return other.residuals.epoch() != epoch; }, stream));
  return slot.takeResiduals(*comm.resources.device);
}

}  // namespace cinch
