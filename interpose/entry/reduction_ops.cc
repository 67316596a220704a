#include "interpose/entry/entry.h"

using namespace cinch;

CINCH_EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar,
                                                   ncclDataType_t type,
                                                   ncclScalarResidence_t residence,
                                                   ncclComm_t comm) {
  const EntryGuard guard;
  const ncclResult_t result =
      CINCH_FORWARD(CINCH_REAL(), RedOpCreatePreMulSum, op, scalar, type, residence, comm);
  if (result == ncclSuccess)
    if (const auto state = followed(guard, comm)) state->ops.add(*op, scalar, type, residence);
  return result;
}

CINCH_EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  const EntryGuard guard;
  const RealNccl* real = CINCH_REAL();
  const auto forward = [=] { return CINCH_FORWARD(real, RedOpDestroy, op, comm); };
  if (const auto state = followed(guard, comm)) state->ops.remove(op);
  OpenGroup* group = guard.outermost() && real != nullptr ? OpenGroup::of(*real) : nullptr;
  return group == nullptr ? forward() : group->destroyOp(comm, op, Pass(forward));
}
