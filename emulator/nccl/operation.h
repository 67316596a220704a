// One call of the API, as recorded until its group ends.
#pragma once

#include <cstddef>

#include "common/nccl_types.h"

namespace cinch::emulator {

enum class Kind { allReduce, reduceScatter, allGather, broadcast, reduce, send, receive, copy };

struct Operation {
  Kind kind;
  const void* input;  // null for receive
  void* output;       // null for send
  size_t count;       // of the API call: per rank for allGather (input) and reduceScatter (output)
  ncclDataType_t type;
  ncclRedOp_t op;  // ncclSum where nothing is reduced
  int peer;        // root, or the other end of a send or receive; -1: none
};

inline bool isPointToPoint(Kind kind) {
  return kind == Kind::send || kind == Kind::receive;
}

inline bool reduces(Kind kind) {
  return kind == Kind::allReduce || kind == Kind::reduceScatter || kind == Kind::reduce;
}

}  // namespace cinch::emulator
