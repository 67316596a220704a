// Floats of 8 bits and less, as integer and float arithmetic that gives the same bits on host and
// device: e4m3 and e2m1 of the Open Compute Project's formats, and e8m0, a power of two.
#pragma once

#include "kernels/element/element_traits.h"

namespace cinch {

// A sign, exponent and mantissa, with subnormal numbers and no infinity. From fp32: round to
// nearest, ties to even; what is too large, infinite or NaN becomes the largest number. To fp32:
// exact.
template <uint32_t exponentBits, uint32_t mantissaBits, uint32_t largestCode>
struct SmallFloat {
  static constexpr uint32_t kSign = 1u << (exponentBits + mantissaBits);

  CINCH_HD static constexpr float toFloat(uint32_t code) {
    // Scaling corrects the exponent's bias and normalises subnormal numbers alike.
    const float magnitude = floatOfBits((code & (kSign - 1)) << kShift) * kBiasFactor;
    return floatOfBits(bitsOfFloat(magnitude) | (code & kSign) << kSignShift);
  }

  CINCH_HD static constexpr uint32_t fromFloat(float value) {
    const uint32_t sign = (bitsOfFloat(value) & kFloatSignBit) >> kSignShift;
    const uint32_t exact = bitsOfFloat(value) & ~kFloatSignBit;
    const uint32_t magnitude = exact < kLargest ? exact : kLargest;
    const uint32_t roundUp = (1u << (kShift - 1)) - 1 + (magnitude >> kShift & 1);
    const uint32_t normal = (magnitude - (kBiasChange << 23) + roundUp) >> kShift;
    // One subnormal step is the last place of kSubnormalRounder, so this addition does the
    // rounding.
    const uint32_t subnormal =
        bitsOfFloat(floatOfBits(magnitude) + kSubnormalRounder) - bitsOfFloat(kSubnormalRounder);
    return sign | (magnitude < kSmallestNormal ? subnormal : normal);
  }

 private:
  static constexpr uint32_t kBias = (1u << (exponentBits - 1)) - 1;
  static constexpr uint32_t kBiasChange = 127 - kBias;
  static constexpr uint32_t kShift = 23 - mantissaBits;
  static constexpr uint32_t kSignShift = 31 - exponentBits - mantissaBits;
  static constexpr float kBiasFactor = floatOfBits((127 + kBiasChange) << 23);
  static constexpr float kSubnormalRounder = floatOfBits((127 + 24 - kBias - mantissaBits) << 23);
  static constexpr uint32_t kSmallestNormal = (kBiasChange + 1) << 23;
  static constexpr uint32_t kLargest = (largestCode << kShift) + (kBiasChange << 23);
};

// +-6.
using E2m1 = SmallFloat<2, 1, 0x07>;

// +-448; the code above the largest number is NaN.
struct E4m3 : SmallFloat<4, 3, 0x7e> {
  CINCH_HD static constexpr float toFloat(uint32_t code) {
    return (code & 0x7f) == 0x7f ? __builtin_nanf("") : SmallFloat::toFloat(code);
  }
};

// 2^-127 to 2^127.
struct E8m0 {
  static constexpr uint32_t kNan = 0xff;

  CINCH_HD static constexpr float toFloat(uint32_t code) {
    if (code == kNan) return __builtin_nanf("");
    return floatOfBits(code > 0 ? code << 23 : 1u << 22);
  }
};

}  // namespace cinch
