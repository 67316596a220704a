#include "interpose/execute/prepare.h"

#include "common/log.h"
#include "common/network/descriptors.h"
#include "interpose/agree/decisions.h"
#include "interpose/comm/memory_reserve.h"
#include "interpose/comm/topic.h"
#include "interpose/execute/checkup.h"
#include "interpose/execute/judgement.h"
#include "interpose/execute/residuals.h"
#include "interpose/execute/trace.h"

namespace cinch {
namespace {

// Two votes each time that a slot gets ready, and one at each call at which the ranks try to meet.
uint64_t allocationTopic(const Slot& slot) {
  return topicOf(Subject::allocation, {slot.identity, slot.nGivenBack});
}
uint64_t meetingTopic(const Slot& slot, uint64_t call) {
  return topicOf(Subject::meeting, {slot.identity, call});
}
uint64_t connectionTopic(const Slot& slot) {
  return topicOf(Subject::connection, {slot.identity, slot.nGivenBack});
}

void refuse(CommState& comm, Slot& slot, const std::string& why) {
  const RelaxedCapture relaxed(*comm.resources.device);
  const CurrentDevice current(*comm.resources.device, comm.resources.cudaDevice);
  slot.phase = SlotPhase::refused;
  slot.residuals.giveBackUnused();
  CINCH_WARN("EXEC", "%s passes from here on: %s", slot.name.c_str(), why.c_str());
}

// None where it is not in force yet, or a rank said no.
Result<std::optional<VoteOutcome>> yesOf(CommState& comm, Slot& slot, uint64_t topic,
                                         uint64_t call) {
  auto outcome = comm.decisions.takeVote(topic, call);
  CINCH_TRY(outcome);
  if (outcome.value() && !outcome.value()->allYes) {
    refuse(comm, slot, "a rank could not get ready");
    outcome.value().reset();
  }
  return outcome;
}

// Moves on where all ranks have their memory, as is in force at `call`.
Result<void> followAllocation(CommState& comm, Slot& slot, uint64_t call) {
  const auto allAllocated = yesOf(comm, slot, allocationTopic(slot), call);
  CINCH_TRY(allAllocated);
  if (!allAllocated.value()) return {};
  comm.workspace.agree(slot.roomBytes());
  slot.phase = SlotPhase::allocatedByAll;
  return {};
}

// Slots of the same number need the same connections: those of sends and receives to and from a
// peer serve messages of any size (2.28, enqueue.cc, p2pTaskAppend), and so does the one ring that
// NCCL's AllGather has between hosts of several ranks.
uint32_t connectionsOf(const CommState& comm, const Slot& slot) {
  constexpr uint32_t kFromEachToEach = 1u << 31, kRing = 1u << 30;
  const CollectivePlan& plan = slot.plan;
  if (plan.hosts) return plan.hosts->nLanes();
  const bool hasRing = plan.gathers() && !comm.gathersDirectly();
  const bool sends = plan.exchanges() || !hasRing;
  return (sends ? kFromEachToEach : 0) | (hasRing ? kRing : 0);
}

// What NCCL opens for sends and receives to and from one peer: 2 channels each way (2.28,
// paths.cc), and over its sockets 1 or 2 descriptors for each; 17 on the NICs of AWS, where limits
// are high.
constexpr size_t kDescriptorsOfAPeer = 8;

size_t peersOf(const CommState& comm, const Slot& slot) {
  const HostPlan* const hosts = slot.plan.hosts.get();
  return hosts != nullptr ? hosts->local.size() + hosts->owners.size()
                          : static_cast<size_t>(comm.nRanks);
}

void allocate(CommState& comm, Slot& slot, CUstream_st* stream) {
  const DeviceTable& device = *comm.resources.device;
  const RelaxedCapture relaxed(device);
  const CurrentDevice current(device, comm.resources.cudaDevice);
  Result<void> done = haveSpareDescriptors(
      needsNoConnections(comm, slot) ? 0 : kDescriptorsOfAPeer * peersOf(comm, slot));
  if (done.ok())
    done =
        comm.workspace.reserve(device, slot.roomBytes(), slot.checkup ? slot.plan.inputBytes() : 0);
  if (done.ok() && slot.plan.nChunks() > 1 && !comm.codecStream)
    done = comm.codecStream.allocate(device);
  if (done.ok()) allocateTracer(comm);
  if (done.ok()) done = comm.workspace.begin(stream, 0);
  if (done.ok()) {
    Result<void> allocated = slot.allocate(device, stream);
    done = comm.workspace.end(stream, 0);  // later calls follow the initialisation
    if (allocated.ok() && done.ok()) allocated = takeResidualsToBegin(comm, slot, stream);
    if (!allocated.ok()) done = allocated;
  }
  // Where it does not arrive the connection is ending, and nothing comes of it; or it has arrived,
  // and this rank is in doubt.
  static_cast<void>(comm.agreement().castVote(allocationTopic(slot), done.ok()));
  // Also without memory: the ranks go through the phases at the same calls, and what comes of the
  // vote is known to all at once.
  slot.phase = SlotPhase::allocated;
  if (!done.ok())
    CINCH_WARN("EXEC", "%s: %s passes from here on: rank %d cannot get ready: %s",
               comm.name.c_str(), slot.name.c_str(), comm.rank, done.error().message.c_str());
}

}  // namespace

Result<bool> isReady(CommState& comm, Slot& slot, uint64_t call) {
  if (slot.phase == SlotPhase::connected) {
    auto allConnected = yesOf(comm, slot, connectionTopic(slot), call);
    CINCH_TRY(allConnected);
    if (!allConnected.value()) return false;
    CINCH_TRY(followOpening(comm, slot, allConnected.value()->bytes));
    comm.activate(slot);
  }
  return slot.phase == SlotPhase::active;
}

bool needsNoConnections(const CommState& comm, const Slot& slot) {
  return comm.decisions.meetings().areMade(connectionsOf(comm, slot));
}

Result<bool> takeNextStep(CommState& comm, Slot& slot, uint64_t call, CUstream_st* stream) {
  if (slot.phase == SlotPhase::idle)
    allocate(comm, slot, stream);
  else if (slot.phase == SlotPhase::allocated)
    CINCH_TRY(followAllocation(comm, slot, call));
  return slot.phase == SlotPhase::allocatedByAll &&
         (needsNoConnections(comm, slot) || comm.decisions.meetings().mayBeAt(call));
}

bool arriveToConnect(CommState& comm, Slot& slot, uint64_t call) {
  return comm.decisions.arrive(meetingTopic(slot, call), call);
}

Result<bool> haveMetToConnect(CommState& comm, Slot& slot, uint64_t call, Deadline patience) {
  const auto met =
      comm.decisions.haveMet(meetingTopic(slot, call), call, connectionsOf(comm, slot), patience);
  if (met.ok() && !met.value() && !comm.agreement().decisions().isOver())
    CINCH_INFO(
        "EXEC",
        "%s: %s passes: NCCL has to connect the ranks for it, which takes all their programs "
        "to be at the same call, and one has not come in time; they try again later",
        comm.name.c_str(), slot.name.c_str());
  return met;
}

// NCCL connects ranks, and allocates for it, at their first exchange of a kind, whatever the size:
// that has happened before the first compressed call.
void connected(const std::shared_ptr<CommState>& comm, Slot& slot) {
  slot.phase = SlotPhase::connected;
  // Of this time that it gets ready: it may be given back before the opening is there.
  const auto vote = [comm, topic = connectionTopic(slot)](std::span<const uint8_t> opening) {
    static_cast<void>(comm->agreement().castVote(topic, true, opening));  // as in allocate()
  };
  if (comm->rank == 0 && hasOpening(slot) && !comm->decisions.isReplayed())
    openInBackground(comm, slot, vote);
  else
    vote({});
}

void giveBack(CommState& comm, Slot& slot) {
  const bool hasMemory = slot.phase == SlotPhase::allocated ||
                         slot.phase == SlotPhase::allocatedByAll ||
                         slot.phase == SlotPhase::connected;
  if (!hasMemory) return;
  std::vector<Buffer> buffers;
  const RelaxedCapture relaxed(*comm.resources.device);
  const CurrentDevice current(*comm.resources.device, comm.resources.cudaDevice);
  slot.residuals.giveBackUnused();
  Event lastUse = slot.release(buffers);
  MemoryReserve::instance().keep(comm.resources.cudaDevice, std::move(buffers), std::move(lastUse));
  slot.phase = SlotPhase::idle;
  ++slot.nGivenBack;
}

}  // namespace cinch
