#include "interpose/execute/prepare.h"

#include "common/log.h"
#include "interpose/execute/exchange.h"

namespace cinch {
namespace {

// NCCL connects two ranks, and allocates for it, at their first exchange: have that happen now
// rather than in the first compressed call.
Result<void> warmConnections(CommState& comm, CUstream_st* stream) {
  auto* out = comm.resources.greeting.as<uint8_t>();
  const ShardBuffers greetings{out, out + kGreetingBytes * static_cast<size_t>(comm.nRanks),
                               kGreetingBytes};
  CINCH_TRY(exchangeShards(comm, greetings, stream));
  return gatherShards(comm, greetings, stream);
}

}  // namespace

Result<void> prepareSlot(CommState& comm, Slot& slot, CUstream_st* stream) {
  const DeviceTable& device = *comm.resources.device;
  const RelaxedCapture relaxed(device);
  const CurrentDevice current(device, comm.resources.cudaDevice);
  Result<void> allocated = comm.workspace.reserve(device, slot.plan.bufferBytes());
  if (allocated.ok()) allocated = slot.allocate(device, stream);
  if (!allocated.ok())
    CINCH_WARN("EXEC", "rank %d cannot compress %s, so no rank will: %s", comm.rank,
               slot.name.c_str(), allocated.error().message.c_str());
  slot.phase = SlotPhase::voting;
  CINCH_TRY(comm.agreement().castVote(slot.index, allocated.ok()));
  // Whatever was voted: the peers count on this rank's part.
  return warmConnections(comm, stream);
}

Result<void> awaitReady(CommState& comm, Slot& slot) {
  // A broken channel is a failure, not a no: the other ranks may have heard a yes.
  const auto allReady = comm.agreement().awaitVote(slot.index);
  if (!allReady.ok()) return allReady.error();
  slot.phase = allReady.value() ? SlotPhase::active : SlotPhase::refused;
  CINCH_INFO("POLICY", "%s: %s", slot.name.c_str(),
             allReady.value() ? "compressed from here on" : "passes: a rank could not get ready");
  return {};
}

}  // namespace cinch
