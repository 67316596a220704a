// Arithmetic on elements: what a reduction does to one slice of a buffer.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/nccl_types.h"

namespace cinch::emulator {

// Bytes of one element; 0 for a type that does not exist.
size_t elementBytes(ncclDataType_t type);

// The operation of ncclRedOpCreatePreMulSum, wherever its scalar comes from.
inline constexpr auto kPreMulSum = static_cast<ncclRedOp_t>(ncclNumOps);

// The three things that a reduction does, each over `count` elements of any alignment that suits
// the type. Results are rounded to the type at every call, as on a ring of GPUs.
struct Reduction {
  // out = own, times the element at `scalar` where the operation scales its inputs
  void (*load)(const void* own, void* out, size_t count, const void* scalar);
  // out = received (+) own, own scaled like above; out may be either of them
  void (*combine)(const void* received, const void* own, void* out, size_t count,
                  const void* scalar);
  // values = what the operation makes of the complete sum; null: nothing
  void (*finish)(void* values, size_t count, int nRanks);
};

// Null for a type or an operation that cannot be reduced here, like 8-bit floats.
const Reduction* findReduction(ncclDataType_t type, ncclRedOp_t op);

// What ncclAvg over `nRanks` scales its inputs by: an element in the first bytes; 0 for integers,
// whose average is made at the end.
uint64_t averageScalar(ncclDataType_t type, int nRanks);

}  // namespace cinch::emulator
