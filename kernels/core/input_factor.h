// The number that a launch multiplies the caller's own values by.
#pragma once

#include "kernels/element/element_traits.h"

namespace cinch::core {

template <ElementType type>
CINCH_HD inline float valueOf(const InputFactor& factor) {
  using Traits = ElementTraits<type>;
  const auto* onDevice = static_cast<const typename Traits::Storage*>(factor.device);
  return onDevice ? Traits::toFloat(*onDevice) : factor.value;
}

inline float valueOf(const InputFactor& factor, ElementType type) {
  switch (type) {
    case ElementType::fp16:
      return valueOf<ElementType::fp16>(factor);
    case ElementType::bf16:
      return valueOf<ElementType::bf16>(factor);
    default:
      return valueOf<ElementType::fp32>(factor);
  }
}

}  // namespace cinch::core
