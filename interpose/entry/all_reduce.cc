#include "interpose/comm/report_writer.h"
#include "interpose/entry/entry.h"

using namespace cinch;

CINCH_EXPORT ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count,
                                        ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                        CUstream_st* stream) {
  const EntryGuard guard;
  const auto state = followed(guard, comm);
  if (state == nullptr) {
    if (guard.outermost()) countOther(count * bytesOf(type));
    return CINCH_FORWARD(CINCH_REAL(), AllReduce, send, recv, count, type, op, comm, stream);
  }
  const AllReduceCall call{send, recv, count, type, op, stream};
  const Signature signature{CallKind::allReduce, opClassOf(op), type, count};
  const auto decision = state->decide(signature);
  noteInGroup(state, signature);
  if (decision.reason == Reason::none && groupIsOpen()) {
    deferToGroupEnd(state, *decision.slot, call);
    return ncclSuccess;
  }
  if (decision.reason == Reason::none) return runAllReduce(*state, *decision.slot, call);
  return unlessRefused(*state, signature, passAllReduce(*state, call, decision.reason));
}
