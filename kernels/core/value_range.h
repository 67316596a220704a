// The smallest and the largest of some values, and what a codec may make of them.
#pragma once

#include "kernels/element/element_traits.h"

namespace cinch::core {

// Integers in the order of the floats: negative NaN < -Inf < ... < -0 < +0 < ... < +Inf < NaN.
// The mapping is its own inverse.
CINCH_HD constexpr int32_t orderedBits(float value) {
  const int32_t bits = static_cast<int32_t>(bitsOfFloat(value));
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
CINCH_HD constexpr float floatOfOrderedBits(int32_t ordered) {
  return floatOfBits(static_cast<uint32_t>(ordered ^ ((ordered >> 31) & 0x7fffffff)));
}

// Metadata is made from a range cut to +-2^126, so that neither a range nor a decoded value can
// overflow. Values beyond are coded as the nearest end.
inline constexpr float kRangeLimit = 0x1p126f;
// A smaller scale counts as zero: its reciprocal would come near to overflow.
inline constexpr float kSmallestScale = 0x1p-120f;

CINCH_HD constexpr float limitToRange(float value) {
  const float below = value < kRangeLimit ? value : kRangeLimit;
  return below > -kRangeLimit ? below : -kRangeLimit;
}

// A summary of values: smallest and largest. Integer minimum and maximum give the same result in
// any order, and put what is not finite at the ends.
struct ValueRange {
  int32_t low = INT32_MAX;
  int32_t high = INT32_MIN;

  CINCH_HD static constexpr ValueRange of(float value) {
    return {orderedBits(value), orderedBits(value)};
  }
  CINCH_HD constexpr ValueRange mergedWith(ValueRange other) const {
    return {low < other.low ? low : other.low, high > other.high ? high : other.high};
  }
  CINCH_HD constexpr bool isFinite() const {
    return low > orderedBits(-__builtin_inff()) && high < orderedBits(__builtin_inff());
  }

  // Cut to the range limit; -0 becomes +0.
  CINCH_HD constexpr float lowest() const { return limitToRange(floatOfOrderedBits(low)) + 0.0f; }
  CINCH_HD constexpr float highest() const { return limitToRange(floatOfOrderedBits(high)); }
};

// A summary of values: the largest magnitude, as the bits of a float; what is not finite is
// largest.
struct Magnitude {
  uint32_t bits = 0;

  CINCH_HD static constexpr Magnitude of(float value) {
    return {bitsOfFloat(value) & ~kFloatSignBit};
  }
  CINCH_HD constexpr Magnitude mergedWith(Magnitude other) const {
    return {bits > other.bits ? bits : other.bits};
  }
  CINCH_HD constexpr bool isFinite() const { return bits < kFloatInfinity; }

  // Cut to the range limit.
  CINCH_HD constexpr float largest() const { return limitToRange(floatOfBits(bits)); }
};

}  // namespace cinch::core
