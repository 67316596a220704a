// How codecs round: positions to codes, and scales to the bf16 numbers that blocks store.
#pragma once

#include "kernels/element/element_traits.h"

namespace cinch::codec {

using Bf16 = ElementTraits<ElementType::bf16>;

// The integer nearest to a position from 0 to 255, ties to even. At 2^23 the last place is 1: the
// addition rounds to an integer and leaves it in the low bits.
CINCH_HD constexpr uint32_t roundToCode(float position) {
  return bitsOfFloat(position + 0x1p23f) & 0xff;
}

// `value` cut to [low, high]; low where it is NaN.
CINCH_HD constexpr float clamp(float value, float low, float high) {
  const float atLeast = value > low ? value : low;
  return atLeast < high ? atLeast : high;
}

// Rounds to bf16, not above or not below the value, which is finite.
CINCH_HD constexpr uint16_t bf16Below(float value) {
  const uint16_t nearest = Bf16::fromFloat(value);
  if (Bf16::toFloat(nearest) <= value) return nearest;
  return static_cast<uint16_t>(nearest & 0x8000 ? nearest + 1 : nearest - 1);
}
CINCH_HD constexpr uint16_t bf16Above(float value) {
  return static_cast<uint16_t>(bf16Below(-value) ^ 0x8000);
}

}  // namespace cinch::codec
