// Collectives and point-to-point calls that always pass: counted, and, for collectives, entered
// into the communicator's sequence, which is what marks the steps of a job.
#include "interpose/comm/report_writer.h"
#include "interpose/entry/entry.h"

namespace cinch {
namespace {

void observe(const std::shared_ptr<CommState>& state, const EntryGuard& guard,
             const Signature& signature) {
  const uint64_t nBytes = signature.count * bytesOf(signature.dataType);
  if (state != nullptr)
    state->countPass(state->decide(signature).reason, nBytes);
  else if (guard.outermost())
    countOther(nBytes);
}

// Point-to-point calls are one rank's own affair: they must not enter the sequence.
void observeP2p(const std::shared_ptr<CommState>& state, const EntryGuard& guard, size_t count,
                ncclDataType_t type) {
  if (state != nullptr)
    state->countPass(Reason::kind, count * bytesOf(type));
  else if (guard.outermost())
    countOther(count * bytesOf(type));
}

}  // namespace
}  // namespace cinch

using namespace cinch;

CINCH_EXPORT ncclResult_t ncclAllGather(const void* send, void* recv, size_t count,
                                        ncclDataType_t type, ncclComm_t comm, CUstream_st* stream) {
  const EntryGuard guard;
  observe(followed(guard, comm), guard, {CallKind::allGather, OpClass::none, type, count});
  return CINCH_FORWARD(CINCH_REAL(), AllGather, send, recv, count, type, comm, stream);
}

CINCH_EXPORT ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count,
                                            ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                            CUstream_st* stream) {
  const EntryGuard guard;
  observe(followed(guard, comm), guard, {CallKind::reduceScatter, opClassOf(op), type, count});
  return CINCH_FORWARD(CINCH_REAL(), ReduceScatter, send, recv, count, type, op, comm, stream);
}

CINCH_EXPORT ncclResult_t ncclReduce(const void* send, void* recv, size_t count,
                                     ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
                                     CUstream_st* stream) {
  const EntryGuard guard;
  observe(followed(guard, comm), guard, {CallKind::reduce, opClassOf(op), type, count});
  return CINCH_FORWARD(CINCH_REAL(), Reduce, send, recv, count, type, op, root, comm, stream);
}

CINCH_EXPORT ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count,
                                        ncclDataType_t type, int root, ncclComm_t comm,
                                        CUstream_st* stream) {
  const EntryGuard guard;
  observe(followed(guard, comm), guard, {CallKind::broadcast, OpClass::none, type, count});
  return CINCH_FORWARD(CINCH_REAL(), Broadcast, send, recv, count, type, root, comm, stream);
}

CINCH_EXPORT ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root,
                                    ncclComm_t comm, CUstream_st* stream) {
  const EntryGuard guard;
  observe(followed(guard, comm), guard, {CallKind::broadcast, OpClass::none, type, count});
  return CINCH_FORWARD(CINCH_REAL(), Bcast, buffer, count, type, root, comm, stream);
}

CINCH_EXPORT ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                                   ncclComm_t comm, CUstream_st* stream) {
  const EntryGuard guard;
  observeP2p(followed(guard, comm), guard, count, type);
  return CINCH_FORWARD(CINCH_REAL(), Send, send, count, type, peer, comm, stream);
}

CINCH_EXPORT ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer,
                                   ncclComm_t comm, CUstream_st* stream) {
  const EntryGuard guard;
  observeP2p(followed(guard, comm), guard, count, type);
  return CINCH_FORWARD(CINCH_REAL(), Recv, recv, count, type, peer, comm, stream);
}
