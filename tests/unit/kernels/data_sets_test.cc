// The data that other tests code is what they take it for.
#include "tests/unit/kernels/data_sets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/element/element_traits.h"

namespace cinch::test {
namespace {

constexpr size_t kCount = 200000;

double moment(const std::vector<float>& values, double power) {
  double sum = 0;
  for (float value : values) sum += std::pow(std::abs(static_cast<double>(value)), power);
  return sum / static_cast<double>(values.size());
}

double kurtosis(const std::vector<float>& values) {
  return moment(values, 4) / std::pow(moment(values, 2), 2);
}

// The share of values that `is` holds for.
template <class Predicate>
double share(const std::vector<float>& values, const Predicate& is) {
  return static_cast<double>(std::count_if(values.begin(), values.end(), is)) /
         static_cast<double>(values.size());
}

TEST(DataSets, HaveTheirDistributions) {
  EXPECT_NEAR(moment(gaussian(kCount, 1, 2.0f), 2), 4.0, 0.1);
  EXPECT_NEAR(kurtosis(gaussian(kCount, 1)), 3.0, 0.1);
  EXPECT_NEAR(moment(laplace(kCount, 1, 2.0f), 2), 4.0, 0.1);
  EXPECT_NEAR(kurtosis(laplace(kCount, 1)), 6.0, 0.5);
  // The mean magnitude of Student's t with 3 degrees of freedom is 2 sqrt(3) / pi.
  EXPECT_NEAR(moment(studentT3(kCount, 1), 1), 2 * std::sqrt(3.0) / 3.14159265, 0.02);
  EXPECT_GT(kurtosis(studentT3(kCount, 1)), 10.0);
}

TEST(DataSets, LayersDifferInScale) {
  const auto values = layered(kCount, 1);
  double least = INFINITY, most = 0;
  for (size_t first = 0; first + 1024 <= kCount; first += 1024) {
    const auto begin = values.begin() + static_cast<ptrdiff_t>(first);
    const double power = moment({begin, begin + 1024}, 2);
    least = std::min(least, power);
    most = std::max(most, power);
  }
  EXPECT_GT(most, 1e4 * least);
}

TEST(DataSets, RecordedGradientsAreReal) {
  const auto values = recorded(kCount, 1);
  EXPECT_TRUE(std::all_of(values.begin(), values.end(), isFinite));
  EXPECT_GT(kurtosis(values), 10.0);
  EXPECT_GT(share(values, [](float value) { return value == 0; }), 0.05) << "idle neurons";
  EXPECT_LT(share(values, [](float value) { return value == 0; }), 0.3);
}

TEST(DataSets, FollowSeedAndScale) {
  for (const DataSet& set : kDataSets) {
    SCOPED_TRACE(set.name);
    const auto values = set.make(1000, 7, 1.0f);
    ASSERT_EQ(values.size(), 1000u);
    EXPECT_EQ(set.make(1000, 7, 1.0f), values);
    EXPECT_NE(set.make(1000, 8, 1.0f), values);
    auto doubled = set.make(1000, 7, 2.0f);
    for (float& value : doubled) value /= 2;
    EXPECT_EQ(doubled, values);
  }
}

TEST(DataSets, AwkwardHoldsEveryKind) {
  const auto values = awkward(kCount, 1);
  ASSERT_EQ(values.size(), kCount);
  EXPECT_GT(share(values, [](float value) { return std::isnan(value); }), 1e-4);
  EXPECT_GT(share(values, [](float value) { return std::isinf(value); }), 1e-4);
  EXPECT_GT(share(values, [](float value) { return value == 0 && std::signbit(value); }), 1e-3);
  EXPECT_GT(share(values, [](float value) { return std::fpclassify(value) == FP_SUBNORMAL; }),
            1e-3);
  EXPECT_GT(share(values, [](float value) { return std::abs(value) > 1e38f; }), 1e-3);
  EXPECT_GT(share(values, [](float value) { return std::abs(value) < 10 && value != 0; }), 0.5);
}

}  // namespace
}  // namespace cinch::test
