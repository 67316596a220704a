// A 64-bit hash of parameters, to see whether ranks still agree to the last bit.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "examples/lm/random.h"

namespace lm {

inline uint64_t hashParameters(std::span<const float> parameters) {
  uint64_t hash = parameters.size();
  for (const float value : parameters) hash = mixBits(hash ^ std::bit_cast<uint32_t>(value));
  return hash;
}

}  // namespace lm
