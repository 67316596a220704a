// One call of the API, as recorded until its group ends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/nccl_types.h"

namespace cinch::emulator {

enum class Kind { allReduce, reduceScatter, allGather, broadcast, reduce, send, receive, copy };

// What a user-made operation multiplies its inputs by: one element, whose bytes are the first of
// `value`, or which lies at `device` when the operation runs.
struct Scalar {
  uint64_t value = 0;
  const void* device = nullptr;  // null: `value` counts
};

struct Operation {
  Kind kind;
  const void* input;  // null for receive
  void* output;       // null for send
  size_t count;       // of the API call: per rank for allGather (input) and reduceScatter (output)
  ncclDataType_t type;
  ncclRedOp_t op;  // ncclSum where nothing is reduced
  int peer;        // root, or the other end of a send or receive; -1: none
  Scalar scalar = {};
};

inline bool isPointToPoint(Kind kind) {
  return kind == Kind::send || kind == Kind::receive;
}

inline bool reduces(Kind kind) {
  return kind == Kind::allReduce || kind == Kind::reduceScatter || kind == Kind::reduce;
}

}  // namespace cinch::emulator
