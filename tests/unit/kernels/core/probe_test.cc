#include "kernels/core/probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

namespace cinch::core {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(ProbedTiles, AreAllOfFewAndSpreadOverMany) {
  EXPECT_EQ(ProbedTiles(0).size(), 0u);
  for (const uint64_t nTiles :
       {1ull, 2ull, 3ull, 63ull, 64ull, 65ull, 100ull, 128ull, 5000ull, 1ull << 33}) {
    const ProbedTiles tiles(nTiles * 1024 - 5);
    ASSERT_EQ(tiles.size(), std::min<uint64_t>(nTiles, kMaxProbes));
    std::set<uint64_t> chosen;
    for (uint32_t i = 0; i < tiles.size(); ++i) {
      const uint64_t tile = tiles.tile(i), end = nTiles * (i + 1);
      chosen.insert(tile);
      EXPECT_GE(tile, nTiles * i / tiles.size());
      EXPECT_LT(tile, (end + tiles.size() - 1) / tiles.size());
      EXPECT_EQ(tiles.nValues(i), tile == nTiles - 1 ? 1019u : 1024u);
    }
    EXPECT_EQ(chosen.size(), tiles.size());
  }
}

TEST(Levels, AreLogarithms) {
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    const float power = floatOfBits(static_cast<uint32_t>(random()) % kFloatInfinity);
    if (power == 0.0f) continue;
    ASSERT_NEAR(levelOf(power), std::log2(static_cast<double>(power)), 0.01) << power;
  }
  for (int exponent = -149; exponent < 128; ++exponent)
    EXPECT_EQ(levelOf(std::ldexp(1.0f, exponent)), static_cast<float>(exponent));
}

TEST(Levels, NeverFall) {
  for (uint32_t bits = 1; bits + 997 < kFloatInfinity; bits += 997)
    ASSERT_LE(levelOf(floatOfBits(bits)), levelOf(floatOfBits(bits + 997))) << bits;
}

TEST(Levels, NothingHasNone) {
  for (const float power : {0.0f, -0.0f, kNan, -1.0f}) EXPECT_EQ(levelOf(power), kNoLevel);
}

TEST(Shifts, AreOfLevelsAlone) {
  EXPECT_EQ(shiftOf(3.0f, 1.5f), 1.5f);
  for (const auto& [now, before] :
       {std::pair{kNoLevel, 1.0f}, {1.0f, kNoLevel}, {kNoLevel, kNoLevel}})
    EXPECT_TRUE(std::isnan(shiftOf(now, before)));
  EXPECT_TRUE(isFlipped(kNoLevel, 1.0f) && isFlipped(1.0f, kNoLevel));
  EXPECT_FALSE(isFlipped(kNoLevel, kNoLevel) || isFlipped(1.0f, 2.0f));
}

// With equal values and with places that count for nothing.
TEST(Ranks, FindTheMedian) {
  std::mt19937 random(2);
  for (int round = 0; round < 3000; ++round) {
    std::vector<float> shifts(1 + random() % kMaxProbes), sorted;
    for (float& shift : shifts) {
      shift = random() % 4 ? static_cast<float>(random() % 20) : kNan;
      if (!std::isnan(shift)) sorted.push_back(shift);
    }
    if (sorted.empty()) continue;
    std::sort(sorted.begin(), sorted.end());
    int nFound = 0;
    for (uint32_t i = 0; i < shifts.size(); ++i) {
      if (std::isnan(shifts[i])) continue;
      const uint32_t rank = rankOf(shifts.data(), static_cast<uint32_t>(shifts.size()), i);
      ASSERT_EQ(shifts[i], sorted[rank]);
      nFound += rank == medianRank(static_cast<uint32_t>(sorted.size()));
    }
    ASSERT_EQ(nFound, 1);
  }
}

TEST(ProfileChange, EachLimitIsALimit) {
  EXPECT_FALSE((ProfileChange{}.isStrange(64)));
  for (const float sign : {1.0f, -1.0f}) {
    EXPECT_FALSE((ProfileChange{.median = sign * 1.5f, .nShifts = 64}.isStrange(64)));
    EXPECT_TRUE((ProfileChange{.median = sign * 1.51f, .nShifts = 64}.isStrange(64)));
  }
  EXPECT_FALSE((ProfileChange{.nShifts = 64, .nDeviating = 17}.isStrange(64)));
  EXPECT_TRUE((ProfileChange{.nShifts = 64, .nDeviating = 18}.isStrange(64)));
  EXPECT_FALSE((ProfileChange{.nShifts = 1, .nDeviating = 1}.isStrange(1)));
  EXPECT_FALSE((ProfileChange{.nShifts = 32, .nFlipped = 32}.isStrange(64)));
  EXPECT_TRUE((ProfileChange{.nShifts = 31, .nFlipped = 33}.isStrange(64)));
  EXPECT_TRUE((ProfileChange{.nFlipped = 1}.isStrange(1)));
}

class Conclusion : public testing::Test {
 protected:
  Conclusion() {
    state_.ordinal = 9;
    probe_.nCalls = 5;
  }
  bool conclude(const ProfileChange& change, ProbePower total) {
    return core::conclude(change, total, 64, state_, probe_);
  }

  static constexpr ProfileChange kStranger = {.median = 2.0f, .nShifts = 64};
  SlotState state_{};
  ProbeState probe_{};
};

TEST_F(Conclusion, OrdinaryCallsAreOnlyCounted) {
  EXPECT_TRUE(conclude({}, {1.0f, 25.0f}));
  EXPECT_FALSE(isPoisoned(state_));
  EXPECT_EQ(probe_.nCalls, 6u);
  EXPECT_EQ(probe_.nStrangers + probe_.nOverflows, 0u);
}

TEST_F(Conclusion, AStrangerPoisonsThisCallAlone) {
  EXPECT_TRUE(conclude(kStranger, {1.0f, 0.0f}));
  EXPECT_TRUE(isPoisoned(state_));
  EXPECT_EQ(probe_.nStrangers, 1u);
  EXPECT_EQ(probe_.nOverflows, 0u);
  endCall(state_, true);
  EXPECT_FALSE(isPoisoned(state_));
}

TEST_F(Conclusion, TheFirstCallKnowsNobody) {
  probe_.nCalls = 0;
  EXPECT_TRUE(conclude(kStranger, {1.0f, 0.0f}));
  EXPECT_FALSE(isPoisoned(state_));
  EXPECT_EQ(probe_.nStrangers, 0u);
}

TEST_F(Conclusion, AResidualOutOfProportionIsDropped) {
  uint32_t nOverflows = 0;
  for (const float residual : {25.01f, 1e30f, kInfinity, kNan}) {
    state_.poisonOrdinal = 0;
    EXPECT_TRUE(conclude({}, {1.0f, residual}));
    EXPECT_TRUE(isPoisoned(state_)) << residual;
    EXPECT_EQ(probe_.nOverflows, ++nOverflows);
  }
}

TEST_F(Conclusion, ZerosMayMeetAnyResidual) {
  EXPECT_TRUE(conclude({}, {0.0f, 7.0f}));
  EXPECT_FALSE(isPoisoned(state_));
}

TEST_F(Conclusion, AResidualThatIsIgnoredAnywayIsNoNews) {
  state_.poisonOrdinal = state_.ordinal;
  EXPECT_TRUE(conclude({}, {1.0f, kNan}));
  EXPECT_TRUE(isPoisoned(state_));
  EXPECT_EQ(probe_.nOverflows, 0u);
}

TEST_F(Conclusion, WhatIsNotFiniteTeachesNothing) {
  for (const float input : {kInfinity, kNan}) {
    EXPECT_FALSE(conclude(kStranger, {input, 1e30f}));
    EXPECT_FALSE(isPoisoned(state_));
    EXPECT_EQ(probe_.nCalls, 5u);
    EXPECT_EQ(probe_.nStrangers + probe_.nOverflows, 0u);
  }
}

}  // namespace
}  // namespace cinch::core
