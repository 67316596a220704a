#include "kernels/core/rotation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace cinch::core {
namespace {

TEST(RotationSigns, ChangeOneSignPerBit) {
  for (uint32_t index = 0; index < 8; ++index)
    for (float value : {1.5f, -2.0f, 0.0f, -0.0f, 1e-42f}) {
      EXPECT_EQ(bitsOfFloat(withSign(value, 1u << index, index)), bitsOfFloat(-value));
      EXPECT_EQ(bitsOfFloat(withSign(value, 0xff & ~(1u << index), index)), bitsOfFloat(value));
    }
}

TEST(RotationSigns, AreEightBits) {
  for (uint32_t octet = 0; octet < 10000; ++octet) ASSERT_LT(octetSigns(12345, octet), 256u);
}

// Each sign is as often kept as changed, and each pair of signs of an octet as often equal as not.
TEST(RotationSigns, AreFairCoins) {
  constexpr int kOctets = 100000;
  int changed[8] = {}, equal[8][8] = {};
  for (uint32_t octet = 0; octet < kOctets; ++octet) {
    const uint32_t signs = octetSigns(rotationKey(3, 8), octet);
    for (int i = 0; i < 8; ++i) {
      changed[i] += signs >> i & 1;
      for (int j = 0; j < i; ++j) equal[i][j] += (signs >> i & 1) == (signs >> j & 1);
    }
  }
  const double slack = 5 * std::sqrt(kOctets) / 2;
  for (int i = 0; i < 8; ++i) {
    EXPECT_NEAR(changed[i], kOctets / 2, slack) << i;
    for (int j = 0; j < i; ++j) EXPECT_NEAR(equal[i][j], kOctets / 2, slack) << i << " " << j;
  }
}

// Calls, slots and blocks have signs of their own: no direction is unlucky for long.
TEST(RotationSigns, DifferFromCallToCall) {
  std::set<uint64_t> patterns;
  size_t nBlocks = 0;
  for (uint32_t slot = 0; slot < 20; ++slot)
    for (uint32_t ordinal = 1; ordinal <= 20; ++ordinal)
      for (uint32_t block = 0; block < 20; ++block) {
        uint64_t pattern = 0;
        for (uint32_t octet = 0; octet < 8; ++octet)
          pattern = pattern << 8 | octetSigns(rotationKey(slot, ordinal), block * 16 + octet);
        patterns.insert(pattern);
        ++nBlocks;
      }
  EXPECT_EQ(patterns.size(), nBlocks);
}

}  // namespace
}  // namespace cinch::core
