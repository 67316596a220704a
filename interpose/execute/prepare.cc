#include "interpose/execute/prepare.h"

#include "common/log.h"
#include "interpose/comm/memory_reserve.h"
#include "interpose/comm/topic.h"
#include "interpose/execute/trace.h"

namespace cinch {
namespace {

// Two votes each time that a slot gets ready.
uint64_t allocationTopic(const Slot& slot) {
  return topicOf({slot.identity, slot.nGivenBack, 0});
}
uint64_t connectionTopic(const Slot& slot) {
  return topicOf({slot.identity, slot.nGivenBack, 1});
}

void refuse(Slot& slot, const std::string& why) {
  slot.phase = SlotPhase::refused;
  CINCH_WARN("EXEC", "%s passes from here on: %s", slot.name.c_str(), why.c_str());
}

// A vote that cannot be cast is a no, and so is the leaving that follows: passing is safe.
void castVote(CommState& comm, Slot& slot, uint64_t topic, SlotPhase next) {
  const auto cast = comm.agreement().castVote(topic, true);
  if (cast.ok()) {
    slot.phase = next;
    return;
  }
  comm.agreement().close();
  refuse(slot, cast.error().message);
}

// False where a rank said no. An error is not a no: the other ranks may have heard a yes.
Result<bool> hearVotes(CommState& comm, Slot& slot, uint64_t topic) {
  auto allReady =
      comm.agreement().awaitVote(topic, static_cast<int>(processParams().params.voteTimeout));
  if (allReady.ok() && !allReady.value()) refuse(slot, "a rank could not get ready");
  return allReady;
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
  if (done.ok()) return castVote(comm, slot, allocationTopic(slot), SlotPhase::allocated);
  // The others hear the no; whether it arrives or the channel ends, none of them will go on.
  if (!comm.agreement().castVote(allocationTopic(slot), false).ok()) comm.agreement().close();
  refuse(slot, "rank " + std::to_string(comm.rank) + " cannot get ready: " + done.error().message);
}

}  // namespace

Result<bool> isReady(CommState& comm, Slot& slot) {
  if (slot.phase == SlotPhase::connected) {
    const auto allConnected = hearVotes(comm, slot, connectionTopic(slot));
    if (!allConnected.ok()) return allConnected.error();
    if (!allConnected.value()) return false;
    comm.activate(slot);
  }
  return slot.phase == SlotPhase::active;
}

Result<bool> takeNextStep(CommState& comm, Slot& slot, CUstream_st* stream) {
  if (slot.phase == SlotPhase::idle) {
    allocate(comm, slot, stream);
    return false;
  }
  if (slot.phase != SlotPhase::allocated) return false;
  const auto allAllocated = hearVotes(comm, slot, allocationTopic(slot));
  if (!allAllocated.ok()) return allAllocated.error();
  if (allAllocated.value()) comm.workspace.agree(slot.roomBytes());
  return allAllocated.value();
}

// NCCL connects ranks, and allocates for it, at their first exchange of a kind and size: that has
// happened before the first compressed call.
void connected(CommState& comm, Slot& slot) {
  castVote(comm, slot, connectionTopic(slot), SlotPhase::connected);
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
