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
  if (!isCompressibleType(type)) return;
  InputFactor factor;
  if (residence == ncclScalarDevice)
    factor.device = scalar;
  else
    factor.value = scalarOf(scalar, type);
  ops_.insert_or_assign(op, Op{factor, type});
}

std::optional<InputFactor> ReductionOps::find(ncclRedOp_t op, ncclDataType_t type) const {
  const auto found = ops_.find(op);
  if (found == ops_.end() || found->second.type != type) return std::nullopt;
  return found->second.factor;
}

}  // namespace cinch
