#include "nccl-tests-patches/src/cinch_compare.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

namespace cinch {
namespace {

constexpr size_t kCount = 4096;
constexpr int kRanks = 4;
const Input kGauss{.kind = InputKind::gauss};

std::vector<float> sumOf(int firstRank, int nRanks, double share = 1, size_t offset = 0) {
  std::vector<float> values(kCount);
  forEach(kCount, FillSum<float>{values.data(), offset, kGauss, 5, firstRank, nRanks, share});
  return values;
}

// What a run does: the ranks' values are measured, results are compared.
struct Trial {
  Tolerance tolerance;
  Reach reach{kRanks, false, Rounding<float>::kStep};
  Sums sums;

  explicit Trial(const char* text) {
    if (*text != 0) parseTolerance(text, &tolerance);
    for (int rank = 0; rank < kRanks; ++rank) {
      Sums found;
      const std::vector<float> sent = sumOf(rank, 1);
      reduceOnDevice(kCount, Magnitudes<float>{sent.data()}, &found);
      sums.noteSent(found, kCount);
    }
  }

  unsigned long long wrong(const std::vector<float>& results, const std::vector<float>& right) {
    Sums of, found;
    reduceOnDevice(kCount, Magnitudes<float>{right.data()}, &of);
    const double bound = valueBound(tolerance, reach, sums, of.largest);
    reduceOnDevice(kCount, Differences<float>{results.data(), right.data(), bound}, &found);
    sums.addChecked(found, kCount, reach);
    return found.wrong;
  }
  bool isWithin() const {
    return sums.nmse() <= nmseBound(tolerance, sums, static_cast<double>(kCount));
  }
};

TEST(NcclTestsCompare, TheSumIsThatOfTheRanks) {
  const auto all = sumOf(0, kRanks);
  for (size_t i = 0; i < kCount; ++i) {
    float sum = 0;
    for (int rank = 0; rank < kRanks; ++rank) sum += sumOf(rank, 1, 1, i)[0];
    EXPECT_NEAR(all[i], sum, 1e-5);
    if (i == 20) break;
  }
  EXPECT_FLOAT_EQ(sumOf(0, kRanks, 0.25)[7], all[7] / 4);
}

TEST(NcclTestsCompare, OnlyRoundingsPassWithoutATolerance) {
  const auto right = sumOf(0, kRanks);
  auto results = right;
  for (float& value : results) value = std::nextafter(value, 100.0f);
  Trial run("");
  EXPECT_EQ(run.wrong(results, right), 0u);
  EXPECT_TRUE(run.isWithin());
  results[3] += 0.001f;
  EXPECT_EQ(Trial("").wrong(results, right), 1u);
}

TEST(NcclTestsCompare, WhatLiesOutsideIsCounted) {
  const auto right = sumOf(0, kRanks);
  auto results = right;
  results[1] += 0.1f;  // within 0.01 of what four ranks send and of the result
  results[2] += 1;
  results[3] = std::numeric_limits<float>::quiet_NaN();
  results[4] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Trial("0.01,0.01").wrong(results, right), 3u);
}

TEST(NcclTestsCompare, AMissingRankIsFoundByTheSquaredError) {
  const auto right = sumOf(0, kRanks);
  const auto results = sumOf(0, kRanks - 1);
  Trial run("1,0.05");
  EXPECT_EQ(run.wrong(results, right), 0u) << "no value alone is out of reach";
  EXPECT_FALSE(run.isWithin());
  Trial same("1,0.05");
  same.wrong(right, right);
  EXPECT_TRUE(same.isWithin());
}

TEST(NcclTestsCompare, AveragesAreHeldToTheirShare) {
  const auto right = sumOf(0, kRanks, 0.25);
  auto results = right;
  results[0] += 0.3f;
  Trial sum("0.02,0.01"), average("0.02,0.01");
  average.reach.averages = true;
  EXPECT_EQ(sum.wrong(results, right), 0u);
  EXPECT_EQ(average.wrong(results, right), 1u);
}

TEST(NcclTestsCompare, AllZeroResultsAreNoDivision) {
  const std::vector<float> zeros(kCount);
  Trial run("0.1,0.1");
  EXPECT_EQ(run.wrong(zeros, zeros), 0u);
  EXPECT_EQ(run.sums.nmse(), 0);
  EXPECT_TRUE(run.isWithin());
}

TEST(NcclTestsCompare, BadTolerancesAreRefused) {
  for (const char* text : {"", "1", "1,", ",1", "1,2,3", "1,x", "-1,1", "1,-1", "nan,1", "1,inf"}) {
    Tolerance tolerance;
    testing::internal::CaptureStderr();
    EXPECT_FALSE(parseTolerance(text, &tolerance)) << text;
    EXPECT_FALSE(tolerance.isGiven) << text;
    EXPECT_NE(testing::internal::GetCapturedStderr().find("cinch explain --tolerance"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace cinch
