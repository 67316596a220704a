#include "interpose/comm/reduction_ops.h"

#include <cstring>

#include "interpose/policy/policy.h"
#include "kernels/element/element_traits.h"

namespace cinch {
namespace {

template <ElementType type>
float read(const void* scalar) {
  typename ElementTraits<type>::Storage value;
  memcpy(&value, scalar, sizeof value);
  return ElementTraits<type>::toFloat(value);
}

// The value at `scalar`, of which exactly the type's bytes are read.
float scalarOf(const void* scalar, ncclDataType_t type) {
  switch (elementTypeOf(type)) {
    case ElementType::fp32:
      return read<ElementType::fp32>(scalar);
    case ElementType::fp16:
      return read<ElementType::fp16>(scalar);
    case ElementType::bf16:
      return read<ElementType::bf16>(scalar);
  }
  return 1.0f;
}

}  // namespace

void ReductionOps::add(ncclRedOp_t op, const void* scalar, ncclDataType_t type,
                       ncclScalarResidence_t residence) {
  InputFactor factor;
  if (residence == ncclScalarDevice)
    factor.device = scalar;
  else if (isCompressibleType(type))
    factor.value = scalarOf(scalar, type);
  ops_.insert_or_assign(op, Op{factor, type});
}

bool ReductionOps::knows(ncclRedOp_t op, ncclDataType_t type) const {
  const auto found = ops_.find(op);
  return found != ops_.end() && found->second.type == type;
}

std::optional<InputFactor> ReductionOps::find(ncclRedOp_t op, ncclDataType_t type) const {
  if (!isCompressibleType(type) || !knows(op, type)) return std::nullopt;
  return ops_.at(op).factor;
}

}  // namespace cinch
