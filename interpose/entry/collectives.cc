// Collectives. Some are compressed; all enter their communicator's sequence, which is what marks
// the steps of a job.
#include "interpose/comm/report_writer.h"
#include "interpose/entry/entry.h"
#include "interpose/execute/submit.h"

namespace cinch {
namespace {

// `forward` calls the real function with copies of the caller's arguments.
template <class Forward>
ncclResult_t intercept(const EntryGuard& guard, const RealNccl* real, ncclComm_t comm,
                       const Collective& call, const Forward& forward) {
  const Pass pass(forward);
  if (!guard.outermost() || real == nullptr) return pass();
  if (const auto state = followed(guard, comm)) return submit(state, call, pass);
  countOther(call.count * bytesOf(call.type));
  OpenGroup* group = OpenGroup::of(*real);
  if (group == nullptr) return pass();
  // All ways to make a communicator are followed: NCCL will not know this one either.
  return group->pass({.comm = comm, .isSound = false}, pass);
}

}  // namespace
}  // namespace cinch

using namespace cinch;

CINCH_EXPORT ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count,
                                        ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                        CUstream_st* stream) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  return intercept(
      guard, real, comm, {CallKind::allReduce, send, recv, count, type, op, 0, stream},
      [=] { return CINCH_FORWARD(real, AllReduce, send, recv, count, type, op, comm, stream); });
}

CINCH_EXPORT ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count,
                                            ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                            CUstream_st* stream) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  return intercept(
      guard, real, comm, {CallKind::reduceScatter, send, recv, count, type, op, 0, stream}, [=] {
        return CINCH_FORWARD(real, ReduceScatter, send, recv, count, type, op, comm, stream);
      });
}

CINCH_EXPORT ncclResult_t ncclAllGather(const void* send, void* recv, size_t count,
                                        ncclDataType_t type, ncclComm_t comm, CUstream_st* stream) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  return intercept(
      guard, real, comm, {CallKind::allGather, send, recv, count, type, ncclSum, 0, stream},
      [=] { return CINCH_FORWARD(real, AllGather, send, recv, count, type, comm, stream); });
}

CINCH_EXPORT ncclResult_t ncclReduce(const void* send, void* recv, size_t count,
                                     ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
                                     CUstream_st* stream) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  return intercept(
      guard, real, comm, {CallKind::reduce, send, recv, count, type, op, root, stream},
      [=] { return CINCH_FORWARD(real, Reduce, send, recv, count, type, op, root, comm, stream); });
}

CINCH_EXPORT ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count,
                                        ncclDataType_t type, int root, ncclComm_t comm,
                                        CUstream_st* stream) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  return intercept(
      guard, real, comm, {CallKind::broadcast, send, recv, count, type, ncclSum, root, stream},
      [=] { return CINCH_FORWARD(real, Broadcast, send, recv, count, type, root, comm, stream); });
}

CINCH_EXPORT ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root,
                                    ncclComm_t comm, CUstream_st* stream) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  return intercept(
      guard, real, comm, {CallKind::broadcast, buffer, buffer, count, type, ncclSum, root, stream},
      [=] { return CINCH_FORWARD(real, Bcast, buffer, count, type, root, comm, stream); });
}

CINCH_EXPORT ncclResult_t ncclAlltoAll(const void* send, void* recv, size_t count,
                                       ncclDataType_t type, ncclComm_t comm, CUstream_st* stream) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  return intercept(
      guard, real, comm, {CallKind::allToAll, send, recv, count, type, ncclSum, 0, stream},
      [=] { return CINCH_FORWARD(real, AlltoAll, send, recv, count, type, comm, stream); });
}

CINCH_EXPORT ncclResult_t ncclGather(const void* send, void* recv, size_t count,
                                     ncclDataType_t type, int root, ncclComm_t comm,
                                     CUstream_st* stream) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  return intercept(
      guard, real, comm, {CallKind::gather, send, recv, count, type, ncclSum, root, stream},
      [=] { return CINCH_FORWARD(real, Gather, send, recv, count, type, root, comm, stream); });
}

CINCH_EXPORT ncclResult_t ncclScatter(const void* send, void* recv, size_t count,
                                      ncclDataType_t type, int root, ncclComm_t comm,
                                      CUstream_st* stream) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  return intercept(
      guard, real, comm, {CallKind::scatter, send, recv, count, type, ncclSum, root, stream},
      [=] { return CINCH_FORWARD(real, Scatter, send, recv, count, type, root, comm, stream); });
}
