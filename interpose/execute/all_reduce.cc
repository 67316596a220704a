#include "interpose/execute/all_reduce.h"

#include "interpose/execute/compressed_all_reduce.h"
#include "interpose/execute/prepare.h"

namespace cinch {
namespace {

bool isCapturing(const CommState& comm, CUstream_st* stream) {
  int capturing = 0;
  const int error = comm.resources.device->streamIsCapturing(stream, &capturing);
  return error == 0 && capturing != 0;
}

ncclResult_t passAndPrepare(CommState& comm, Slot& slot, const AllReduceCall& call) {
  const ncclResult_t passed = passAllReduce(comm, call, Reason::preparing);
  if (passed != ncclSuccess) return passed;
  const auto prepared = prepareSlot(comm, slot, call.stream);
  return prepared.ok() ? ncclSuccess : comm.fail(prepared.error());
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
  if (slot.phase == SlotPhase::idle) return passAndPrepare(comm, slot, call);
  if (slot.phase == SlotPhase::voting)
    if (const auto ready = awaitReady(comm, slot); !ready.ok()) return comm.fail(ready.error());
  if (slot.phase == SlotPhase::refused) return passAllReduce(comm, call, Reason::voted);
  return compress(comm, slot, call);
}

}  // namespace cinch
