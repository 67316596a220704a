// The operations that a program made with ncclRedOpCreatePreMulSum on one communicator.
#pragma once

#include <optional>
#include <unordered_map>

#include "common/nccl_types.h"
#include "kernels/device_table.h"

namespace cinch {

// Programs destroy an operation while a group that uses it is still open, and NCCL then gives its
// handle to the next one: what a call needs is copied when it is made.
class ReductionOps {
 public:
  // NCCL has made `op`. `scalar` is one value of `type`, read now if it is on the host.
  void add(ncclRedOp_t op, const void* scalar, ncclDataType_t type,
           ncclScalarResidence_t residence);
  void remove(ncclRedOp_t op) { ops_.erase(op); }

  // False where `op` does not exist or was made for another type, which NCCL refuses.
  bool knows(ncclRedOp_t op, ncclDataType_t type) const;
  // What a call on values of `type`, which can be compressed, multiplies its input by; none where
  // `op` is not known.
  std::optional<InputFactor> find(ncclRedOp_t op, ncclDataType_t type) const;

 private:
  struct Op {
    InputFactor factor;
    ncclDataType_t type;
  };
  std::unordered_map<int, Op> ops_;
};

}  // namespace cinch
