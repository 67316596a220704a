#include "kernels/core/value_range.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

namespace cinch::core {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
const float kNegativeNan = floatOfBits(0xffc00001u);

template <class Summary>
Summary summaryOf(const std::vector<float>& values) {
  Summary summary;
  for (float value : values) summary = summary.mergedWith(Summary::of(value));
  return summary;
}

ValueRange rangeOf(const std::vector<float>& values) {
  return summaryOf<ValueRange>(values);
}
Magnitude magnitudeOf(const std::vector<float>& values) {
  return summaryOf<Magnitude>(values);
}

TEST(OrderedBits, KeepTheOrderOfFloats) {
  const float ascending[] = {-kInfinity, -kLargest, -1.0f, -kSmallest, -0.0f,    0.0f,
                             kSmallest,  1.0f,      2.0f,  kLargest,   kInfinity};
  for (size_t i = 1; i < std::size(ascending); ++i)
    EXPECT_LT(orderedBits(ascending[i - 1]), orderedBits(ascending[i])) << i;
  for (float value : ascending)
    EXPECT_EQ(bitsOfFloat(floatOfOrderedBits(orderedBits(value))), bitsOfFloat(value));
}

TEST(OrderedBits, PutNansOutsideTheInfinities) {
  EXPECT_LT(orderedBits(kNegativeNan), orderedBits(-kInfinity));
  EXPECT_GT(orderedBits(kNan), orderedBits(kInfinity));
}

TEST(LimitToRange, CutsBothEnds) {
  EXPECT_EQ(limitToRange(kLargest), kRangeLimit);
  EXPECT_EQ(limitToRange(-kLargest), -kRangeLimit);
  EXPECT_EQ(limitToRange(kRangeLimit), kRangeLimit);
  EXPECT_EQ(limitToRange(-1.5f), -1.5f);
  EXPECT_TRUE(isFinite(limitToRange(kLargest) - limitToRange(-kLargest)));
}

TEST(ValueRange, FindsTheEndsInAnyOrder) {
  std::mt19937 random(1);
  std::vector<float> values = {3.0f, -7.5f, 0.0f, 1e-30f, 2e20f, -1e-40f};
  for (int round = 0; round < 50; ++round) {
    std::shuffle(values.begin(), values.end(), random);
    EXPECT_EQ(rangeOf(values).lowest(), -7.5f);
    EXPECT_EQ(rangeOf(values).highest(), 2e20f);
    EXPECT_TRUE(rangeOf(values).isFinite());
  }
}

TEST(ValueRange, LowestIsNeverNegativeZero) {
  EXPECT_EQ(bitsOfFloat(rangeOf({-0.0f}).lowest()), 0u);
  EXPECT_EQ(bitsOfFloat(rangeOf({-0.0f, 0.0f, 5.0f}).lowest()), 0u);
}

// Merging nothing changes nothing: what is not there must not count.
template <class Summary>
void expectNeutral(float value) {
  const Summary summary = Summary::of(value);
  for (const Summary& merged : {summary.mergedWith(Summary{}), Summary{}.mergedWith(summary)})
    EXPECT_EQ(__builtin_memcmp(&merged, &summary, sizeof summary), 0) << value;
}

TEST(Summaries, TheEmptyOneIsNeutral) {
  for (float value : {0.0f, -0.0f, -kLargest, kLargest, kSmallest, kInfinity, -kInfinity, kNan}) {
    expectNeutral<ValueRange>(value);
    expectNeutral<Magnitude>(value);
  }
}

TEST(Summaries, OneSpecialValueIsEnough) {
  for (float special : {kNan, kNegativeNan, kInfinity, -kInfinity}) {
    EXPECT_FALSE(rangeOf({1.0f, special, -1.0f}).isFinite());
    EXPECT_FALSE(magnitudeOf({1.0f, special, -1.0f}).isFinite());
  }
  EXPECT_TRUE(rangeOf({kLargest, -kLargest}).isFinite());
  EXPECT_TRUE(magnitudeOf({kLargest, -kLargest}).isFinite());
}

TEST(Magnitude, ForgetsSigns) {
  EXPECT_EQ(magnitudeOf({0.5f, -3.0f, 2.0f}).largest(), 3.0f);
  EXPECT_EQ(bitsOfFloat(magnitudeOf({-0.0f}).largest()), 0u);
  EXPECT_EQ(magnitudeOf({}).largest(), 0.0f);
  EXPECT_EQ(magnitudeOf({-kLargest}).largest(), kRangeLimit);
}

}  // namespace
}  // namespace cinch::core
