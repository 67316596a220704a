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
  const auto decision = state->decide({CallKind::allReduce, opClassOf(op), type, count});
  if (decision.reason != Reason::none) return passAllReduce(*state, call, decision.reason);
  if (!groupIsOpen()) return runAllReduce(*state, *decision.slot, call);
  deferToGroupEnd(state, *decision.slot, call);
  return ncclSuccess;
}
