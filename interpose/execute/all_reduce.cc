#include "interpose/execute/all_reduce.h"

#include "common/log.h"
#include "interpose/execute/compressed_all_reduce.h"
#include "interpose/execute/prepare.h"

namespace cinch {
namespace {

bool isCapturing(const CommState& comm, CUstream_st* stream) {
  int capturing = 0;
  const int error = comm.resources.device->streamIsCapturing(stream, &capturing);
  return error == 0 && capturing != 0;
}

ncclResult_t compress(CommState& comm, Slot& slot, const AllReduceCall& call) {
  const auto done = compressAllReduce(comm, slot, call);
  return done.ok() ? ncclSuccess : comm.fail(done.error());
}

}  // namespace

ncclResult_t passAllReduce(CommState& comm, const AllReduceCall& call, Reason reason) {
  comm.countPass(reason, call.count * bytesOf(call.type));
  return comm.real.AllReduce(call.send, call.recv, call.count, call.type, call.op, comm.comm,
                             call.stream);
}

ncclResult_t runAllReduce(CommState& comm, Slot& slot, const AllReduceCall& call) {
  if (const ncclResult_t health = comm.health(); health != ncclSuccess) return health;
  // A capture is collective: NCCL wants it on all ranks or on none.
  if (isCapturing(comm, call.stream)) return passAllReduce(comm, call, Reason::capturing);
  if (slot.phase == SlotPhase::refused) return passAllReduce(comm, call, Reason::voted);
  if (slot.phase != SlotPhase::active) {
    const auto active = advanceSlot(comm, slot, call.stream);
    if (!active.ok()) return comm.fail(active.error());
    if (!active.value()) return passAllReduce(comm, call, Reason::preparing);
    CINCH_INFO("POLICY", "%s: compressed from here on", slot.name.c_str());
  }
  return compress(comm, slot, call);
}

}  // namespace cinch
