// Randomised Hadamard rotation of blocks of 128 values: spreads what is large over all of the
// block, so that any data looks Gaussian to the codes.
//
// Forward: each value changes sign at random, is scaled by 2^-7, and goes through the butterflies.
// Backward: the butterflies, then the signs. Butterflies at distance 1, 2, 4 .. 64: of two values
// a and b, a comes first, a + b replaces a and a - b replaces b. Scaling forward means that nothing
// overflows there.
#pragma once

#include "kernels/element/element_traits.h"

namespace cinch::core {

inline constexpr uint32_t kRotationElems = 128;
inline constexpr float kRotationScale = 0x1p-7f;

// Sender and reader know slot and ordinal from the header.
CINCH_HD constexpr uint32_t rotationKey(uint32_t slot, uint32_t ordinal) {
  return slot * 0x9E3779B1u ^ ordinal * 0x85EBCA77u;
}

// The signs of the eight values of an octet, counted through its shard: bit i set: value i changes
// its sign. The mixer is MurmurHash3's 32-bit finaliser.
CINCH_HD constexpr uint32_t octetSigns(uint32_t key, uint32_t octet) {
  uint32_t hash = octet * 0x9E3779B9u + key;
  hash = (hash ^ hash >> 16) * 0x85EBCA6Bu;
  hash = (hash ^ hash >> 13) * 0xC2B2AE35u;
  return hash >> 24;
}

CINCH_HD constexpr float withSign(float value, uint32_t signs, uint32_t index) {
  return floatOfBits(bitsOfFloat(value) ^ (signs << (31 - index) & kFloatSignBit));
}

}  // namespace cinch::core
