#include "tests/identity/random.h"

#include <bit>

namespace cinch::identity {

float toBfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (!std::isfinite(value)) return value;
  const uint32_t rounding = 0x7fff + (bits >> 16 & 1);
  return std::bit_cast<float>((bits + rounding) & 0xffff0000u);
}

}  // namespace cinch::identity
