#include "tools/cinch/bench/test_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace cinch::bench {
namespace {

constexpr size_t kCount = 500;

std::vector<double> sent(const TestValues& values, int rank, size_t count = kCount) {
  std::vector<double> result(count);
  values.send(rank, 1, 0, result);
  return result;
}

// The values as the type holds them.
std::vector<double> rounded(const ElementType& type, const std::vector<double>& values) {
  std::vector<std::byte> elements(values.size() * type.bytes);
  std::vector<double> back(values.size());
  storeValues(type, values, elements.data());
  loadValues(type, elements.data(), back);
  return back;
}

TEST(TestValues, AndTheirResultsFitEveryType) {
  for (const int ranks : {1, 2, 3, 4, 16})
    for (const ElementType& type : elementTypes())
      for (const Operation& operation : operationsNamed("all")) {
        const TestValues values(type, operation.id, CallKind::allReduce, ranks);
        if (values.roundingBound() > 0) continue;
        std::vector<double> result(kCount);
        values.expect(0, 1, kCount, 0, result);
        EXPECT_EQ(rounded(type, result), result) << type.name << operation.name << ranks;
        EXPECT_EQ(rounded(type, sent(values, ranks - 1)), sent(values, ranks - 1)) << type.name;
      }
}

TEST(TestValues, SumsAreThoseOfAllRanks) {
  const TestValues values(*findElementType("float"), ncclSum, CallKind::allReduce, 3);
  std::vector<double> result(kCount);
  values.expect(0, 1, kCount, 0, result);
  const auto a = sent(values, 0), b = sent(values, 1), c = sent(values, 2);
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(result[i], a[i] + b[i] + c[i]);
  EXPECT_NE(a, b);
}

TEST(TestValues, EachRankHasItsShardOfASum) {
  const TestValues values(*findElementType("float"), ncclSum, CallKind::reduceScatter, 2);
  std::vector<double> result(kCount / 2);
  values.expect(1, 1, kCount / 2, 0, result);
  const auto a = sent(values, 0), b = sent(values, 1);
  EXPECT_EQ(result[0], a[kCount / 2] + b[kCount / 2]);
  EXPECT_EQ(result.back(), a.back() + b.back());
}

TEST(TestValues, GatheredShardsComeInTheOrderOfRanks) {
  const TestValues values(*findElementType("half"), ncclSum, CallKind::allGather, 3);
  std::vector<double> result(3 * kCount);
  values.expect(2, 1, kCount, 0, result);
  for (int rank = 0; rank < 3; ++rank) {
    const auto shard = sent(values, rank);
    EXPECT_TRUE(std::equal(shard.begin(), shard.end(), result.begin() + rank * kCount));
  }
}

TEST(TestValues, RoundsDiffer) {
  const TestValues values(*findElementType("float"), ncclSum, CallKind::allReduce, 2);
  std::vector<double> other(kCount);
  values.send(0, 2, 0, other);
  EXPECT_NE(sent(values, 0), other);
}

TEST(TestValues, OnlyAveragesOfOddRanksAreInexact) {
  const ElementType& type = *findElementType("float");
  EXPECT_EQ(TestValues(type, ncclSum, CallKind::allReduce, 3).roundingBound(), 0);
  EXPECT_EQ(TestValues(type, ncclAvg, CallKind::allReduce, 4).roundingBound(), 0);
  EXPECT_GT(TestValues(type, ncclAvg, CallKind::allReduce, 3).roundingBound(), 0);
  EXPECT_LT(TestValues(type, ncclAvg, CallKind::allReduce, 3).roundingBound(), 1e-5);
  EXPECT_GT(
      TestValues(*findElementType("bfloat16"), ncclSum, CallKind::allReduce, 500).roundingBound(),
      0);
}

}  // namespace
}  // namespace cinch::bench
