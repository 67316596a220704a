// Collectives and point-to-point calls that always pass: counted, and, for collectives, entered
// into the communicator's sequence, which is what marks the steps of a job.
#include "interpose/comm/report_writer.h"
#include "interpose/entry/entry.h"

namespace cinch {
namespace {

// Counts a collective on its way to NCCL, and takes it back if NCCL refuses it.
class Observed {
 public:
  Observed(const EntryGuard& guard, ncclComm_t comm, const Signature& signature)
      : state_(followed(guard, comm)), signature_(signature) {
    const uint64_t nBytes = signature.count * bytesOf(signature.dataType);
    if (state_ != nullptr) {
      state_->countPass(state_->decide(signature).reason, nBytes);
      noteInGroup(state_, signature);
    } else if (guard.outermost()) {
      countOther(nBytes);
    }
  }
  ncclResult_t with(ncclResult_t result) const {
    return state_ == nullptr ? result : unlessRefused(*state_, signature_, result);
  }

 private:
  const std::shared_ptr<CommState> state_;
  const Signature signature_;
};

// Point-to-point calls do not enter the sequence.
void countP2p(const EntryGuard& guard, ncclComm_t comm, size_t count, ncclDataType_t type) {
  if (const auto state = followed(guard, comm))
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
  const Observed observed(guard, comm, {CallKind::allGather, OpClass::none, type, count});
  return observed.with(
      CINCH_FORWARD(CINCH_REAL(), AllGather, send, recv, count, type, comm, stream));
}

CINCH_EXPORT ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count,
                                            ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                            CUstream_st* stream) {
  const EntryGuard guard;
  const Observed observed(guard, comm, {CallKind::reduceScatter, opClassOf(op), type, count});
  return observed.with(
      CINCH_FORWARD(CINCH_REAL(), ReduceScatter, send, recv, count, type, op, comm, stream));
}

CINCH_EXPORT ncclResult_t ncclReduce(const void* send, void* recv, size_t count,
                                     ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
                                     CUstream_st* stream) {
  const EntryGuard guard;
  const Observed observed(guard, comm, {CallKind::reduce, opClassOf(op), type, count});
  return observed.with(
      CINCH_FORWARD(CINCH_REAL(), Reduce, send, recv, count, type, op, root, comm, stream));
}

CINCH_EXPORT ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count,
                                        ncclDataType_t type, int root, ncclComm_t comm,
                                        CUstream_st* stream) {
  const EntryGuard guard;
  const Observed observed(guard, comm, {CallKind::broadcast, OpClass::none, type, count});
  return observed.with(
      CINCH_FORWARD(CINCH_REAL(), Broadcast, send, recv, count, type, root, comm, stream));
}

CINCH_EXPORT ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root,
                                    ncclComm_t comm, CUstream_st* stream) {
  const EntryGuard guard;
  const Observed observed(guard, comm, {CallKind::broadcast, OpClass::none, type, count});
  return observed.with(CINCH_FORWARD(CINCH_REAL(), Bcast, buffer, count, type, root, comm, stream));
}

CINCH_EXPORT ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                                   ncclComm_t comm, CUstream_st* stream) {
  const EntryGuard guard;
  countP2p(guard, comm, count, type);
  return CINCH_FORWARD(CINCH_REAL(), Send, send, count, type, peer, comm, stream);
}

CINCH_EXPORT ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer,
                                   ncclComm_t comm, CUstream_st* stream) {
  const EntryGuard guard;
  countP2p(guard, comm, count, type);
  return CINCH_FORWARD(CINCH_REAL(), Recv, recv, count, type, peer, comm, stream);
}
