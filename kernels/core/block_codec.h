// The codec of one block: format v1's arithmetic, the specification of host and device alike
// (docs/wire-format.md, "Arithmetic"). Plain IEEE fp32, every operation rounded to nearest on its
// own: no contraction, no fast-math, no flushing of subnormal numbers.
//
// Encoding a block takes two passes over its values: a ValueRange, from which pairOf() makes the
// stored (step, minimum) pair; then a BlockScale of that pair, which gives each value's code.
#pragma once

#include "kernels/element/element_traits.h"
#include "kernels/wire/wire_format.h"

namespace cinch::core {

using Bf16 = ElementTraits<ElementType::bf16>;

// What error feedback adds to a value before it is coded.
CINCH_HD constexpr float compensate(float value, float gain, float residual) {
  return value + gain * residual;
}

// The residual after `value` was coded as `decoded`. Never infinite or NaN: it would stay so.
CINCH_HD constexpr float nextResidual(float residual, float value, float decoded) {
  const float next = residual + (value - decoded);
  return isFinite(next) ? next : 0.0f;
}

// Integers in the order of the floats: negative NaN < -Inf < ... < -0 < +0 < ... < +Inf < NaN.
// The mapping is its own inverse.
CINCH_HD constexpr int32_t orderedBits(float value) {
  const int32_t bits = static_cast<int32_t>(bitsOfFloat(value));
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
CINCH_HD constexpr float floatOfOrderedBits(int32_t ordered) {
  return floatOfBits(static_cast<uint32_t>(ordered ^ ((ordered >> 31) & 0x7fffffff)));
}

// Smallest and largest value of a block. Integer minimum and maximum give the same result in any
// order, and put what is not finite at the ends.
struct ValueRange {
  int32_t low = INT32_MAX;
  int32_t high = INT32_MIN;

  CINCH_HD constexpr void include(float value) {
    const int32_t ordered = orderedBits(value);
    low = ordered < low ? ordered : low;
    high = ordered > high ? ordered : high;
  }
  CINCH_HD constexpr bool isFinite() const {
    return low > orderedBits(-__builtin_inff()) && high < orderedBits(__builtin_inff());
  }
};

// The four bytes that a block stores besides its codes: two bf16 numbers.
struct StoredPair {
  uint16_t step;
  uint16_t minimum;
};
static_assert(sizeof(StoredPair) == wire::kBlockMetaBytes);

// Marks a block that held a NaN or an infinity; its codes are 0 and it decodes to NaN.
inline constexpr StoredPair kMarkedPair = {Bf16::kCanonicalNan, 0};

// The pair is made from a range cut to +-2^126, so that neither the range nor a decoded value can
// overflow. Values beyond are coded as the nearest end.
inline constexpr float kRangeLimit = 0x1p126f;
// A smaller step means a constant block: its reciprocal would come near to overflow.
inline constexpr float kSmallestStep = 0x1p-120f;

CINCH_HD constexpr float limitToRange(float value) {
  const float below = value < kRangeLimit ? value : kRangeLimit;
  return below > -kRangeLimit ? below : -kRangeLimit;
}

// Largest code: the number of steps between minimum and maximum.
CINCH_HD constexpr uint32_t largestCode(wire::Codec codec) {
  return (1u << wire::bitsOf(codec)) - 1;
}

// The pair for a block of at least one value.
CINCH_HD constexpr StoredPair pairOf(wire::Codec codec, ValueRange range) {
  if (!range.isFinite()) return kMarkedPair;
  // Adding zero turns -0 into +0.
  const float low = limitToRange(floatOfOrderedBits(range.low)) + 0.0f;
  const float high = limitToRange(floatOfOrderedBits(range.high));
  const float perCode = 1.0f / static_cast<float>(largestCode(codec));
  const uint16_t step = Bf16::fromFloat((high - low) * perCode);
  const bool isConstant = Bf16::toFloat(step) < kSmallestStep;
  return {isConstant ? uint16_t{0} : step, Bf16::fromFloat(low)};
}

// A stored pair, ready for use. Codes are decided with the stored numbers, so that both ends agree.
struct BlockScale {
  float step;
  float minimum;
  float inverse;  // of the step; 0 for a constant block
  float topCode;

  CINCH_HD constexpr BlockScale(wire::Codec codec, StoredPair pair)
      : step(Bf16::toFloat(pair.step)),
        minimum(Bf16::toFloat(pair.minimum)),
        inverse(step >= kSmallestStep ? 1.0f / step : 0.0f),
        topCode(static_cast<float>(largestCode(codec))) {}

  // A marked block, or one that no encoder makes: decodes to NaN as a whole. Otherwise encode()
  // and decode() apply to every value.
  CINCH_HD constexpr bool isMarked() const {
    return !cinch::isFinite(step) || !cinch::isFinite(minimum);
  }

  CINCH_HD constexpr uint32_t encode(float value) const {
    const float position = (value - minimum) * inverse;
    const float atLeast = position > 0.0f ? position : 0.0f;
    const float clamped = atLeast < topCode ? atLeast : topCode;
    // At 2^23 the last place is 1: the addition rounds to an integer, ties to even, and leaves it
    // in the low bits.
    return bitsOfFloat(clamped + 0x1p23f) & 0xff;
  }

  CINCH_HD constexpr float decode(uint32_t code) const {
    return minimum + static_cast<float>(static_cast<int32_t>(code)) * step;
  }
};

}  // namespace cinch::core
