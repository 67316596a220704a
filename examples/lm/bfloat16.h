// bfloat16: the upper half of a float.
#pragma once

#include <bit>
#include <cstdint>

namespace lm {

// Rounds to nearest, ties to even. A NaN stays one.
constexpr uint16_t toBfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

constexpr float fromBfloat16(uint16_t half) {
  return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
}

}  // namespace lm
