// Runs an AllReduce that the policy wants compressed.
#pragma once

#include <memory>

#include "interpose/comm/comm_state.h"

namespace cinch {

// The arguments of one ncclAllReduce. The pointers are the caller's device memory.
struct AllReduceCall {
  const void* send;
  void* recv;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  CUstream_st* stream;
};

// Hands the call to NCCL unchanged and counts why.
ncclResult_t passAllReduce(CommState& comm, const AllReduceCall& call, Reason reason);

// Compresses the call where `slot` is ready on all ranks, gets the slot ready where it is not, and
// passes the call meanwhile. Outside any group. All work is on the caller's stream on return.
ncclResult_t runAllReduce(CommState& comm, Slot& slot, const AllReduceCall& call);

}  // namespace cinch
