// Facts about the element types, and their conversions from and to fp32, as integer and float
// arithmetic that gives the same bits on host and device. Compilers vectorise all of it.
//
// From fp32: round to nearest, ties to even; too large becomes infinite; every NaN becomes the one
// canonical NaN of the type (quiet, positive, no payload). To fp32: exact; NaNs keep their payload,
// which no caller may depend on.
#pragma once

#include <cstdint>

#include "kernels/device_table.h"

namespace cinch {

CINCH_HD constexpr uint32_t bitsOfFloat(float value) {
  return __builtin_bit_cast(uint32_t, value);
}
CINCH_HD constexpr float floatOfBits(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

inline constexpr uint32_t kFloatSignBit = 0x80000000;
inline constexpr uint32_t kFloatInfinity = 0x7f800000;

CINCH_HD constexpr bool isFinite(float value) {
  return (bitsOfFloat(value) & ~kFloatSignBit) < kFloatInfinity;
}

template <ElementType type>
struct ElementTraits;

template <>
struct ElementTraits<ElementType::fp32> {
  using Storage = float;
  static constexpr uint32_t kCanonicalNan = 0x7fc00000;

  CINCH_HD static constexpr float toFloat(float value) { return value; }
  CINCH_HD static constexpr float fromFloat(float value) {
    const bool isNan = (bitsOfFloat(value) & ~kFloatSignBit) > kFloatInfinity;
    return isNan ? floatOfBits(kCanonicalNan) : value;
  }
  CINCH_HD static constexpr bool isStorageFinite(float value) { return isFinite(value); }
};

template <>
struct ElementTraits<ElementType::bf16> {
  using Storage = uint16_t;
  static constexpr uint16_t kCanonicalNan = 0x7fc0;
  static constexpr uint16_t kInfinity = 0x7f80;

  CINCH_HD static constexpr float toFloat(uint16_t value) {
    return floatOfBits(static_cast<uint32_t>(value) << 16);
  }
  CINCH_HD static constexpr uint16_t fromFloat(float value) {
    const uint32_t bits = bitsOfFloat(value);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const bool isNan = (bits & ~kFloatSignBit) > kFloatInfinity;
    return static_cast<uint16_t>(isNan ? kCanonicalNan : rounded);
  }
  CINCH_HD static constexpr bool isStorageFinite(uint16_t value) {
    return (value & 0x7fff) < kInfinity;
  }
};

template <>
struct ElementTraits<ElementType::fp16> {
  using Storage = uint16_t;
  static constexpr uint16_t kCanonicalNan = 0x7e00;
  static constexpr uint16_t kInfinity = 0x7c00;

  CINCH_HD static constexpr float toFloat(uint16_t value) {
    // Scaling by 2^112 corrects the exponent's bias and normalises subnormal numbers alike.
    const float magnitude =
        floatOfBits(static_cast<uint32_t>(value & 0x7fff) << 13) * floatOfBits(0x77800000);
    const uint32_t special = (value & 0x7fff) >= kInfinity ? kFloatInfinity : 0;
    const uint32_t sign = static_cast<uint32_t>(value & 0x8000) << 16;
    return floatOfBits(bitsOfFloat(magnitude) | special | sign);
  }

  CINCH_HD static constexpr uint16_t fromFloat(float value) {
    const uint32_t sign = (bitsOfFloat(value) & kFloatSignBit) >> 16;
    const uint32_t magnitude = bitsOfFloat(value) & ~kFloatSignBit;
    const uint32_t normal = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    // One fp16 subnormal step is the last place of 0.5f, so this addition does the rounding.
    const uint32_t subnormal = bitsOfFloat(floatOfBits(magnitude) + 0.5f) - bitsOfFloat(0.5f);
    uint32_t rounded = magnitude < kSmallestNormal ? subnormal : normal;
    rounded = magnitude >= kRoundsToInfinity ? kInfinity : rounded;
    return static_cast<uint16_t>(magnitude > kFloatInfinity ? kCanonicalNan : rounded | sign);
  }
  CINCH_HD static constexpr bool isStorageFinite(uint16_t value) {
    return (value & 0x7fff) < kInfinity;
  }

 private:
  static constexpr uint32_t kSmallestNormal = 0x38800000;    // 2^-14, as fp32 bits
  static constexpr uint32_t kRoundsToInfinity = 0x477ff000;  // 65520: halfway to 2^16, ties to even
};

}  // namespace cinch
