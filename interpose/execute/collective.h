// The arguments of one NCCL collective, and what can be said of them without NCCL. Pure.
#pragma once

#include "interpose/policy/signature.h"

namespace cinch {

struct Collective {
  CallKind kind;
  const void* send;  // the caller's device memory, as recv
  void* recv;
  size_t count;  // as NCCL counts it for this kind
  ncclDataType_t type;
  ncclRedOp_t op;  // ncclSum where the kind has none
  int root;        // 0 where the kind has none
  CUstream_st* stream;
};

bool reduces(CallKind kind);

// Whether rank `rank` gives the buffers that it has to; a root's partners need not give all.
bool hasBuffers(const Collective& call, int rank);

}  // namespace cinch
