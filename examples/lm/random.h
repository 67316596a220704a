// A stateless random number: the same arguments give the same bits on every machine, so a batch is
// known from (seed, step, rank) alone.
#pragma once

#include <cstdint>

namespace lm {

// 64 well-mixed bits of `value` (the finaliser of splitmix64).
constexpr uint64_t mixBits(uint64_t value) {
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

// The `index`-th number of stream `stream` under `seed`.
constexpr uint64_t randomBits(uint64_t seed, uint64_t stream, uint64_t index) {
  return mixBits(mixBits(mixBits(seed) ^ stream) ^ index);
}

// A whole number in [0, limit); `limit` is at least 1 and below 2^32.
constexpr uint64_t randomBelow(uint64_t bits, uint64_t limit) {
  return (bits >> 32) * limit >> 32;
}

// A float in [-1, 1), in steps of 2^-23.
constexpr float randomSigned(uint64_t bits) {
  return static_cast<float>(static_cast<int32_t>(bits >> 40) - (1 << 23)) / float{1 << 23};
}

}  // namespace lm
