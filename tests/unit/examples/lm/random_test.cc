#include "examples/lm/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "examples/lm/parameter_hash.h"

namespace lm {
namespace {

TEST(Random, NumbersDifferByStreamIndexAndSeed) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 10; ++seed)
    for (uint64_t stream = 0; stream < 10; ++stream)
      for (uint64_t index = 0; index < 10; ++index) seen.insert(randomBits(seed, stream, index));
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(Random, StaysBelowTheLimitAndReachesAll) {
  EXPECT_EQ(randomBelow(UINT64_MAX, 1), 0u);
  EXPECT_EQ(randomBelow(UINT64_MAX, 4000000000u), 3999999999u);
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 1000; ++i) seen.insert(randomBelow(randomBits(1, 2, i), 10));
  EXPECT_EQ(seen.size(), 10u);
  EXPECT_EQ(*seen.rbegin(), 9u);
}

TEST(Random, SignedNumbersAreUniform) {
  EXPECT_EQ(randomSigned(0), -1.0f);
  EXPECT_LT(randomSigned(UINT64_MAX), 1.0f);
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double value = randomSigned(randomBits(3, 4, i));
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 0.01);
}

TEST(ParameterHash, SeesEveryBitAndThePlace) {
  const std::vector<float> parameters{1, 2, 3};
  const uint64_t hash = hashParameters(parameters);
  EXPECT_EQ(hash, hashParameters(std::vector<float>{1, 2, 3}));
  EXPECT_NE(hash, hashParameters(std::vector<float>{1, 3, 2}));
  EXPECT_NE(hash, hashParameters(std::vector<float>{1, 2, std::nextafter(3.0f, 4.0f)}));
  EXPECT_NE(hash, hashParameters(std::vector<float>{1, 2}));
  EXPECT_NE(hashParameters(std::vector<float>{0.0f}), hashParameters(std::vector<float>{-0.0f}));
}

}  // namespace
}  // namespace lm
