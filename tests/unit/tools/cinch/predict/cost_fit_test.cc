#include "tools/cinch/predict/cost_fit.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace cinch {
namespace {

constexpr LinearCost kPlanted{100e-6, 1e-9};

std::vector<CostSample> planted(const LinearCost& cost, double noise, int perSize) {
  std::mt19937 random(7);
  std::vector<CostSample> samples;
  for (double nBytes = 4096; nBytes < 1e8; nBytes *= 4)
    for (int i = 0; i < perSize; ++i) {
      const double unit = static_cast<double>(random()) / 0x1p32;
      samples.push_back({nBytes, cost.of(nBytes) * (1 + noise * (2 * unit - 1))});
    }
  return samples;
}

TEST(CostFit, RecoversWhatWasPlanted) {
  const auto found = fitLinear(planted(kPlanted, 0, 1));
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->fixedSeconds, kPlanted.fixedSeconds, 1e-9);
  EXPECT_NEAR(found->secondsPerByte, kPlanted.secondsPerByte, 1e-15);
}

TEST(CostFit, NoiseMovesItLittle) {
  const auto found = fitLinear(planted(kPlanted, 0.1, 5));
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->fixedSeconds / kPlanted.fixedSeconds, 1, 0.08);
  EXPECT_NEAR(found->secondsPerByte / kPlanted.secondsPerByte, 1, 0.08);
}

TEST(CostFit, OutliersMoveItNoFurther) {
  std::vector<CostSample> samples = planted(kPlanted, 0.02, 5);
  for (size_t i = 0; i < samples.size(); i += 4) samples[i].seconds *= 20;
  const auto found = fitLinear(samples);
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->fixedSeconds / kPlanted.fixedSeconds, 1, 0.05);
  EXPECT_NEAR(found->secondsPerByte / kPlanted.secondsPerByte, 1, 0.05);
}

TEST(CostFit, NeitherPartIsNegative) {
  const auto falling = fitLinear(std::vector<CostSample>{{100, 3}, {200, 2}, {300, 1}});
  ASSERT_TRUE(falling.has_value());
  EXPECT_EQ(falling->secondsPerByte, 0);
  EXPECT_GT(falling->fixedSeconds, 0);
  const auto steep = fitLinear(std::vector<CostSample>{{100, 0.1}, {200, 1}, {300, 2}});
  ASSERT_TRUE(steep.has_value());
  EXPECT_EQ(steep->fixedSeconds, 0);
  EXPECT_GT(steep->secondsPerByte, 0);
}

TEST(CostFit, WhatIsKnownIsNotFoundAgain) {
  std::vector<CostSample> samples = planted(kPlanted, 0, 1);
  for (CostSample& sample : samples) {
    sample.knownSeconds = 5e-9 * sample.nBytes;
    sample.seconds += sample.knownSeconds;
  }
  const auto found = fitLinear(samples);
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->secondsPerByte, kPlanted.secondsPerByte, 1e-13);
  for (CostSample& sample : samples) sample.knownSeconds = 2 * sample.seconds;
  const auto nothing = fitLinear(samples);
  ASSERT_TRUE(nothing.has_value());
  EXPECT_EQ(nothing->of(1e6), 0);
}

TEST(CostFit, NeedsAPositiveTime) {
  EXPECT_EQ(fitLinear({}), std::nullopt);
  EXPECT_EQ(fitLinear(std::vector<CostSample>{{100, 0}, {200, -1}}), std::nullopt);
  const auto one = fitLinear(std::vector<CostSample>{{100, 5}});
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->of(100), 5);
}

}  // namespace
}  // namespace cinch
