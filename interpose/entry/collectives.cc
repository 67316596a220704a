// Collectives. Some are compressed; all enter their communicator's sequence, which is what marks
// the steps of a job.
#include "interpose/comm/report_writer.h"
#include "interpose/entry/entry.h"
#include "interpose/execute/submit.h"

// A collective, and its twin of NCCL 2.31 that takes a configuration, which is NCCL's affair:
// CINCH_COLLECTIVE(name, (its arguments), (its fields of Collective), parameters...).
#define CINCH_LIST(...) __VA_ARGS__
#define CINCH_COLLECTIVE(name, arguments, fields, ...)                                        \
  CINCH_EXPORT ncclResult_t nccl##name(__VA_ARGS__) {                                         \
    const EntryGuard guard;                                                                   \
    const RealNccl* real = CINCH_REAL();                                                      \
    return intercept(guard, real, comm, {CINCH_LIST fields},                                  \
                     [=] { return CINCH_FORWARD(real, name, CINCH_LIST arguments); });        \
  }                                                                                           \
  CINCH_EXPORT ncclResult_t nccl##name##Config(__VA_ARGS__, const ncclCollConfig_t* config) { \
    const EntryGuard guard;                                                                   \
    const RealNccl* real = CINCH_REAL();                                                      \
    return intercept(guard, real, comm, {CINCH_LIST fields}, [=] {                            \
      return CINCH_FORWARD(real, name##Config, CINCH_LIST arguments, config);                 \
    });                                                                                       \
  }

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

CINCH_COLLECTIVE(AllReduce, (send, recv, count, type, op, comm, stream),
                 (CallKind::allReduce, send, recv, count, type, op, 0, stream), const void* send,
                 void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                 CUstream_st* stream)

CINCH_COLLECTIVE(ReduceScatter, (send, recv, count, type, op, comm, stream),
                 (CallKind::reduceScatter, send, recv, count, type, op, 0, stream),
                 const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                 ncclComm_t comm, CUstream_st* stream)

CINCH_COLLECTIVE(AllGather, (send, recv, count, type, comm, stream),
                 (CallKind::allGather, send, recv, count, type, ncclSum, 0, stream),
                 const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                 CUstream_st* stream)

CINCH_COLLECTIVE(Reduce, (send, recv, count, type, op, root, comm, stream),
                 (CallKind::reduce, send, recv, count, type, op, root, stream), const void* send,
                 void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                 ncclComm_t comm, CUstream_st* stream)

CINCH_COLLECTIVE(Broadcast, (send, recv, count, type, root, comm, stream),
                 (CallKind::broadcast, send, recv, count, type, ncclSum, root, stream),
                 const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                 ncclComm_t comm, CUstream_st* stream)

CINCH_COLLECTIVE(AlltoAll, (send, recv, count, type, comm, stream),
                 (CallKind::allToAll, send, recv, count, type, ncclSum, 0, stream),
                 const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                 CUstream_st* stream)

CINCH_COLLECTIVE(Gather, (send, recv, count, type, root, comm, stream),
                 (CallKind::gather, send, recv, count, type, ncclSum, root, stream),
                 const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                 ncclComm_t comm, CUstream_st* stream)

CINCH_COLLECTIVE(Scatter, (send, recv, count, type, root, comm, stream),
                 (CallKind::scatter, send, recv, count, type, ncclSum, root, stream),
                 const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                 ncclComm_t comm, CUstream_st* stream)

// Has no such twin.
CINCH_EXPORT ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root,
                                    ncclComm_t comm, CUstream_st* stream) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  return intercept(
      guard, real, comm, {CallKind::broadcast, buffer, buffer, count, type, ncclSum, root, stream},
      [=] { return CINCH_FORWARD(real, Bcast, buffer, count, type, root, comm, stream); });
}
