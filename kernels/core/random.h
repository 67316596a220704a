// Random numbers without state: Philox4x32 with 7 rounds (Salmon and others, "Parallel Random
// Numbers: As Easy as 1, 2, 3", SC 2011). The same counter and key give the same bits on any
// machine, in any order.
#pragma once

#include "kernels/element/element_traits.h"

namespace cinch::core {

struct Random128 {
  uint32_t word[4];
};

CINCH_HD constexpr Random128 philox(Random128 counter, uint64_t key) {
  constexpr uint64_t kFactor0 = 0xD2511F53, kFactor1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  constexpr int kRounds = 7;
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const auto& word = counter.word;
    const uint64_t product0 = kFactor0 * word[0], product1 = kFactor1 * word[2];
    counter = {
        {static_cast<uint32_t>(product1 >> 32) ^ word[1] ^ key0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ word[3] ^ key1, static_cast<uint32_t>(product0)}};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

// Dither for value `index` of an octet: 16 of its random bits, as an odd multiple of 2^-17, so that
// the mean is exactly zero.
CINCH_HD constexpr float ditherOf(const Random128& random, uint32_t index) {
  const uint32_t bits = random.word[index / 2] >> index % 2 * 16 & 0xffff;
  return (static_cast<float>(static_cast<int32_t>(bits)) - 32767.5f) * 0x1p-16f;
}

// Which dither: of one launch, for each octet of a shard.
struct DitherKey {
  uint64_t seed;  // differs by rank, so that the ranks' errors average out
  uint32_t shard;
  uint32_t stage;  // 0 or 1
  uint32_t ordinal;
  uint32_t slot;

  CINCH_HD constexpr Random128 ofOctet(uint32_t octet) const {
    return philox({{octet, shard << 1 | stage, ordinal, slot}}, seed);
  }
};

}  // namespace cinch::core
