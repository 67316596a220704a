#include "interpose/execute/prepare.h"

#include "common/log.h"
#include "interpose/comm/memory_reserve.h"
#include "interpose/comm/topic.h"
#include "interpose/execute/judgement.h"
#include "interpose/execute/trace.h"

namespace cinch {
namespace {

// Two votes each time that a slot gets ready.
uint64_t allocationTopic(const Slot& slot) {
  return topicOf(Subject::allocation, {slot.identity, slot.nGivenBack});
}
uint64_t connectionTopic(const Slot& slot) {
  return topicOf(Subject::connection, {slot.identity, slot.nGivenBack});
}

void refuse(Slot& slot, const std::string& why) {
  slot.phase = SlotPhase::refused;
  CINCH_WARN("EXEC", "%s passes from here on: %s", slot.name.c_str(), why.c_str());
}

// None where it is not in force yet, or a rank said no.
Result<std::optional<VoteOutcome>> yesOf(CommState& comm, Slot& slot, uint64_t topic,
                                         uint64_t call) {
  auto outcome = comm.decisions.takeVote(topic, call);
  CINCH_TRY(outcome);
  if (outcome.value() && !outcome.value()->allYes) {
    refuse(slot, "a rank could not get ready");
    outcome.value().reset();
  }
  return outcome;
}

void allocate(CommState& comm, Slot& slot, CUstream_st* stream) {
  const DeviceTable& device = *comm.resources.device;
  const RelaxedCapture relaxed(device);
  const CurrentDevice current(device, comm.resources.cudaDevice);
  Result<void> done =
      comm.workspace.reserve(device, slot.roomBytes(), slot.checkup ? slot.plan.inputBytes() : 0);
  if (done.ok() && slot.plan.nChunks() > 1 && !comm.codecStream)
    done = comm.codecStream.allocate(device);
  if (done.ok()) allocateTracer(comm);
  if (done.ok()) done = comm.workspace.begin(stream, 0);
  if (done.ok()) {
    const Result<void> allocated = slot.allocate(device, stream);
    done = comm.workspace.end(stream, 0);  // later calls follow the initialisation
    if (!allocated.ok()) done = allocated;
  }
  const auto cast = comm.agreement().castVote(allocationTopic(slot), done.ok());
  if (cast.ok() && done.ok()) {
    slot.phase = SlotPhase::allocated;
    return;
  }
  // A vote that cannot be cast is a no, and so is the leaving that follows.
  if (!cast.ok()) comm.agreement().close();
  const std::string& cause = done.ok() ? cast.error().message : done.error().message;
  refuse(slot, "rank " + std::to_string(comm.rank) + " cannot get ready: " + cause);
}

}  // namespace

Result<bool> isReady(CommState& comm, Slot& slot, uint64_t call) {
  if (slot.phase == SlotPhase::connected) {
    auto allConnected = yesOf(comm, slot, connectionTopic(slot), call);
    CINCH_TRY(allConnected);
    if (!allConnected.value()) return false;
    if (slot.checkup) slot.checkup->opening = std::move(allConnected.value()->bytes);
    comm.activate(slot);
  }
  return slot.phase == SlotPhase::active;
}

Result<bool> takeNextStep(CommState& comm, Slot& slot, uint64_t call, CUstream_st* stream) {
  if (slot.phase == SlotPhase::idle) {
    allocate(comm, slot, stream);
    return false;
  }
  if (slot.phase != SlotPhase::allocated) return false;
  const auto allAllocated = yesOf(comm, slot, allocationTopic(slot), call);
  CINCH_TRY(allAllocated);
  if (allAllocated.value()) comm.workspace.agree(slot.roomBytes());
  return allAllocated.value().has_value();
}

// NCCL connects ranks, and allocates for it, at their first exchange of a kind and size: that has
// happened before the first compressed call.
void connected(const std::shared_ptr<CommState>& comm, Slot& slot) {
  slot.phase = SlotPhase::connected;
  // Of this time that it gets ready: it may be given back before the opening is there.
  const auto vote = [comm, topic = connectionTopic(slot)](std::span<const uint8_t> opening) {
    if (!comm->agreement().castVote(topic, true, opening).ok()) comm->agreement().close();
  };
  if (comm->rank == 0 && hasOpening(slot) && !comm->decisions.isReplayed())
    openInBackground(comm, slot, vote);
  else
    vote({});
}

void giveBack(CommState& comm, Slot& slot) {
  if (slot.phase != SlotPhase::allocated && slot.phase != SlotPhase::connected) return;
  std::vector<Buffer> buffers;
  Event lastUse = slot.release(buffers);
  MemoryReserve::instance().keep(comm.resources.cudaDevice, std::move(buffers), std::move(lastUse));
  slot.phase = SlotPhase::idle;
  ++slot.nGivenBack;
}

}  // namespace cinch
