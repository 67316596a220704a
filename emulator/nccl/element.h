// Element types as the arithmetic sees them: `Wide` computes, `widen` is exact, `narrow` rounds to
// nearest even. Integers compute unsigned, so that overflow wraps.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace cinch::emulator {

template <class T>
struct PlainElement {
  using Storage = T;
  using Wide = T;
  static Wide widen(T value) { return value; }
  static T narrow(Wide value) { return value; }
};

struct Bfloat16Element {
  using Storage = uint16_t;
  using Wide = float;

  static float widen(uint16_t value) {
    return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
  }
  static uint16_t narrow(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const uint32_t quietNan = bits >> 16 | 0x40;
    return static_cast<uint16_t>(value == value ? rounded : quietNan);
  }
};

struct Float16Element {
  using Storage = uint16_t;
  using Wide = float;

  static float widen(uint16_t value) {
    const uint32_t sign = static_cast<uint32_t>(value & 0x8000) << 16;
    const uint32_t magnitude = static_cast<uint32_t>(value & 0x7fff) << 13;
    // 2^112 moves the exponent from bias 15 to 127, and is exact for subnormal numbers too.
    const float finite = std::bit_cast<float>(magnitude) * 0x1p112f;
    const bool special = magnitude >= 0x0f800000;
    const uint32_t bits = special ? magnitude | 0x7f800000 : std::bit_cast<uint32_t>(finite);
    return std::bit_cast<float>(bits | sign);
  }

  static uint16_t narrow(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = bits >> 16 & 0x8000;
    const uint32_t magnitude = bits & 0x7fffffff;
    // Below 2^-14: the addition itself rounds at a half's last subnormal bit.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    const uint32_t subnormal = std::bit_cast<uint32_t>(shifted) - 0x3f000000;
    const uint32_t rebased = magnitude - 0x38000000;
    const uint32_t normal = (rebased + 0xfff + (rebased >> 13 & 1)) >> 13;
    const uint32_t finite = magnitude < 0x38800000 ? subnormal : normal;
    const uint32_t clamped = magnitude >= 0x477ff000 ? 0x7c00 : finite;
    const uint32_t result = magnitude > 0x7f800000 ? 0x7e00 : clamped;
    return static_cast<uint16_t>(result | sign);
  }
};

}  // namespace cinch::emulator
