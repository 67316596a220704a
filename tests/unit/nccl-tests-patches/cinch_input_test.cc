#include "nccl-tests-patches/src/cinch_input.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace cinch {
namespace {

constexpr size_t kInputCount = 1 << 18;

std::vector<double> draw(const Input& input, uint64_t seed, int rank, size_t offset = 0) {
  std::vector<double> values(kInputCount);
  const uint64_t key = keyOf(seed, rank);
  for (size_t i = 0; i < kInputCount; ++i) values[i] = inputValue(input, key, offset + i);
  return values;
}

double meanOf(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum / static_cast<double>(a.size());
}

double partBeyond(const std::vector<double>& values, double limit) {
  const auto n =
      std::count_if(values.begin(), values.end(), [&](double v) { return std::abs(v) > limit; });
  return static_cast<double>(n) / static_cast<double>(values.size());
}

TEST(NcclTestsInput, GaussIsGaussian) {
  const auto values = draw({.kind = InputKind::gauss}, 99, 1);
  const std::vector<double> ones(kInputCount, 1);
  EXPECT_NEAR(meanOf(values, ones), 0, 4 / std::sqrt(kInputCount));
  EXPECT_NEAR(meanOf(values, values), 1, 4 * std::sqrt(2.0 / kInputCount));
  EXPECT_NEAR(partBeyond(values, 1), 0.3173, 0.004);
  EXPECT_NEAR(partBeyond(values, 3), 0.0027, 0.0005);
}

TEST(NcclTestsInput, StudentHasItsTail) {
  const auto values = draw({.kind = InputKind::student}, 99, 1);
  // Of t with 3 degrees of freedom: P(|t| > 3.1824) = .05, P(|t| > 12.924) = .001.
  EXPECT_NEAR(partBeyond(values, 3.1824), 0.05, 0.002);
  EXPECT_NEAR(partBeyond(values, 12.924), 0.001, 0.0003);
}

TEST(NcclTestsInput, RanksAndFillsAreIndependent) {
  for (const InputKind kind : {InputKind::gauss, InputKind::student}) {
    const auto one = draw({.kind = kind}, 7, 0);
    EXPECT_EQ(one, draw({.kind = kind}, 7, 0));
    for (const auto& other : {draw({.kind = kind}, 7, 1), draw({.kind = kind}, 8, 0)}) {
      const double together = meanOf(one, other);
      EXPECT_LT(std::abs(together), 0.05 * std::sqrt(meanOf(one, one) * meanOf(other, other)));
    }
  }
}

TEST(NcclTestsInput, APartIsThatPartOfTheWhole) {
  const Input input{.kind = InputKind::gauss};
  const auto whole = draw(input, 3, 2);
  EXPECT_EQ(draw(input, 3, 2, 100)[0], whole[100]);
}

TEST(NcclTestsInput, RecordedValuesAreRepeatedFromAnotherPlaceOnEachRank) {
  const std::vector<float> recorded = {1, 2, 3, 4, 5};
  const Input input{.kind = InputKind::file, .recorded = recorded.data(), .count = 5};
  bool differs = false;
  for (int rank = 0; rank < 8; ++rank) {
    const auto values = draw(input, 1, rank);
    for (size_t i = 0; i < 20; ++i)
      EXPECT_EQ(values[i + 1], std::fmod(values[i], 5) + 1) << "of rank " << rank;
    differs = differs || values[0] != draw(input, 1, 0)[0];
  }
  EXPECT_TRUE(differs);
}

}  // namespace
}  // namespace cinch
