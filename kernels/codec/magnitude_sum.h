// The sum of the magnitudes of some values: a measure of their size that neither overflows nor
// underflows where the values do not, as squares would.
#pragma once

#include "kernels/element/element_traits.h"

namespace cinch::codec {

struct MagnitudeSum {
  float sum = 0.0f;

  CINCH_HD static constexpr MagnitudeSum of(float value) {
    return {floatOfBits(bitsOfFloat(value) & ~kFloatSignBit)};
  }
  CINCH_HD constexpr MagnitudeSum mergedWith(MagnitudeSum other) const { return {sum + other.sum}; }
  // False with a NaN or an infinity, and where the sum overflowed: nothing is coded then.
  CINCH_HD constexpr bool isFinite() const { return cinch::isFinite(sum); }
};

}  // namespace cinch::codec
