// 8-bit floats, as integer and float arithmetic that gives the same bits on host and device: e4m3
// of the Open Compute Project's formats.
#pragma once

#include "kernels/element/element_traits.h"

namespace cinch {

// A sign, exponent and mantissa, with subnormal numbers and no infinity: up to +-448; the code
// above the largest number is NaN. From fp32: round to nearest, ties to even; what is too large,
// infinite or NaN becomes the largest number. To fp32: exact.
struct E4m3 {
  CINCH_HD static constexpr float toFloat(uint32_t code) {
    if ((code & 0x7f) == 0x7f) return __builtin_nanf("");
    // Scaling corrects the exponent's bias and normalises subnormal numbers alike.
    const float magnitude = floatOfBits((code & 0x7f) << kShift) * kBiasFactor;
    return floatOfBits(bitsOfFloat(magnitude) | (code & 0x80) << kSignShift);
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
  static constexpr uint32_t kExponentBits = 4, kMantissaBits = 3;
  static constexpr uint32_t kBias = (1u << (kExponentBits - 1)) - 1;
  static constexpr uint32_t kBiasChange = 127 - kBias;
  static constexpr uint32_t kShift = 23 - kMantissaBits;
  static constexpr uint32_t kSignShift = 31 - kExponentBits - kMantissaBits;
  static constexpr float kBiasFactor = floatOfBits((127 + kBiasChange) << 23);
  static constexpr float kSubnormalRounder = floatOfBits((127 + 24 - kBias - kMantissaBits) << 23);
  static constexpr uint32_t kSmallestNormal = (kBiasChange + 1) << 23;
  static constexpr uint32_t kLargest = (0x7eu << kShift) + (kBiasChange << 23);
};

}  // namespace cinch
