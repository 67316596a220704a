#include "interpose/policy/precision/outliers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "kernels/wire/wire_format.h"

namespace cinch {
namespace {

constexpr uint64_t kTiles = 100;
constexpr uint64_t kOutlierBlock = 128;

// The tally of each tile of `kTiles`, of values that value(index) gives.
std::vector<TileTally> tallied(const std::function<double(uint64_t index)>& value) {
  std::vector<TileTally> tiles(kTiles);
  for (uint64_t block = 0; block < kTiles * wire::kTileElems / kOutlierBlock; ++block) {
    TileTally& tile = tiles[block * kOutlierBlock / wire::kTileElems];
    double low = 1e300, high = -1e300, power = 0;
    for (uint64_t i = block * kOutlierBlock; i < (block + 1) * kOutlierBlock; ++i) {
      const double v = value(i);
      low = std::min(low, v), high = std::max(high, v), power += v * v;
    }
    tile.power += static_cast<float>(power);
    tile.squaredRanges += static_cast<float>((high - low) * (high - low));
  }
  return tiles;
}

using Numbers = std::vector<uint64_t>;

class Outliers : public testing::Test {
 protected:
  std::mt19937_64 random_{7};
  std::normal_distribution<double> gaussian_{0, 1e-3};
};

TEST_F(Outliers, ALossAmongGradients) {
  for (const double loss : {-654.0, 2.7, 0.5})
    EXPECT_EQ(outlierTiles(tallied([&](uint64_t i) {
                return i == 70 * wire::kTileElems ? loss : gaussian_(random_);
              })),
              Numbers{70})
        << loss;
}

TEST_F(Outliers, ALossAndACountAtTheEnd) {
  const uint64_t end = kTiles * wire::kTileElems;
  EXPECT_EQ(outlierTiles(tallied([&](uint64_t i) {
              return i == 5 ? 300.0 : i == end - 1 ? 4096.0 : gaussian_(random_);
            })),
            (Numbers{0, kTiles - 1}));
}

TEST_F(Outliers, GradientsHaveNone) {
  EXPECT_TRUE(outlierTiles(tallied([&](uint64_t) { return gaussian_(random_); })).empty());
}

TEST_F(Outliers, HeavyTailsAreNone) {
  std::student_t_distribution<double> tails(3);
  for (int round = 0; round < 20; ++round)
    EXPECT_TRUE(outlierTiles(tallied([&](uint64_t) { return tails(random_); })).empty());
}

TEST_F(Outliers, LayersOfOtherScalesAreNone) {
  EXPECT_TRUE(outlierTiles(tallied([&](uint64_t i) {
                const bool isLoud = i / wire::kTileElems < 3;
                return gaussian_(random_) * (isLoud ? 1e6 : 1);
              })).empty());
}

// Of an embedding few rows have a gradient.
TEST_F(Outliers, SparseRowsAreNone) {
  EXPECT_TRUE(outlierTiles(tallied([&](uint64_t i) {
                return i / 512 % 20 == 3 ? gaussian_(random_) : 0;
              })).empty());
}

TEST_F(Outliers, WhatIsInManyTilesIsTheGradient) {
  EXPECT_TRUE(outlierTiles(tallied([&](uint64_t i) {
                return i % (10 * wire::kTileElems) == 0 ? 1e3 : gaussian_(random_);
              })).empty());
}

TEST_F(Outliers, NothingHasNone) {
  EXPECT_TRUE(outlierTiles({}).empty());
  EXPECT_TRUE(outlierTiles(tallied([](uint64_t) { return 0; })).empty());
}

}  // namespace
}  // namespace cinch
