#include "kernels/cuda/agent/cta.h"

#include <gtest/gtest.h>

namespace cinch::cuda {
namespace {

// An H200 has 132 SMs.
constexpr uint64_t kResident = 132 * 3;

TEST(CtasPerRow, AreNoMoreThanThereIsWorkFor) {
  EXPECT_EQ(ctasPerRow(0, 1, kResident), 1u);
  EXPECT_EQ(ctasPerRow(1, 1, kResident), 1u);
  EXPECT_EQ(ctasPerRow(kTilesPerCta, 1, kResident), 1u);
  EXPECT_EQ(ctasPerRow(kTilesPerCta + 1, 1, kResident), 2u);
  EXPECT_EQ(ctasPerRow(kMaxRowTiles, 1, kResident), kResident);
}

// One more would wait for all the others to end.
TEST(CtasPerRow, TogetherRunAtOnce) {
  for (const uint64_t nResident : {uint64_t{1}, uint64_t{5}, kResident, uint64_t{744}})
    for (uint64_t nRows = 1; nRows <= nResident; ++nRows) {
      const uint64_t nCtas = nRows * ctasPerRow(kMaxRowTiles, nRows, nResident);
      ASSERT_LE(nCtas, nResident) << nRows;
      ASSERT_GT(nCtas + nRows, nResident) << nRows;
    }
}

TEST(CtasPerRow, IsOneWhereRowsAreMoreThanRunAtOnce) {
  EXPECT_EQ(ctasPerRow(kMaxRowTiles, kResident + 1, kResident), 1u);
  EXPECT_EQ(ctasPerRow(kMaxRowTiles, kMaxGridRows, 1), 1u);
  EXPECT_EQ(ctasPerRow(kMaxRowTiles, 1, 0), 1u);
}

TEST(SmShare, IsRoundedDownButNeverNothing) {
  const auto used = [](uint32_t nSms, uint32_t percent) { return shareOf(nSms, percent).nUsed; };
  EXPECT_EQ(used(132, 25), 33u);
  EXPECT_EQ(used(132, 100), 132u);
  EXPECT_EQ(used(46, 25), 11u);
  EXPECT_EQ(used(3, 25), 1u);
  EXPECT_EQ(used(132, 1), 1u);
  EXPECT_EQ(shareOf(46, 25).nThere, 46u);
}

}  // namespace
}  // namespace cinch::cuda
