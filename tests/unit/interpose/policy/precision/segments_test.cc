#include "interpose/policy/precision/segments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace cinch {
namespace {

constexpr uint64_t kTile = wire::kTileElems;
constexpr uint64_t kUncut = uint64_t{1} << 40;

uint64_t tilesOf(const std::vector<PrecisionSegment>& segments) {
  uint64_t n = 0;
  for (const PrecisionSegment& segment : segments) n += segment.nTiles;
  return n;
}

// Tiles of each segment; those that are kept raw with a minus.
std::vector<int64_t> lengthsOf(const std::vector<PrecisionSegment>& segments) {
  std::vector<int64_t> tiles;
  for (const PrecisionSegment& segment : segments)
    tiles.push_back(static_cast<int64_t>(segment.nTiles) * (segment.keptRaw ? -1 : 1));
  return tiles;
}

std::vector<int64_t> cut(const BucketLayout& layers, uint64_t maxTiles = kUncut) {
  return lengthsOf(segmentsOf(countOf(layers), layers, maxTiles));
}

using Tiles = std::vector<int64_t>;

TEST(Segments, WithoutLayersRunsOfEqualLength) {
  const auto segments = segmentsOf(130 * kTile + 1, {});
  ASSERT_EQ(segments.size(), 3u);
  EXPECT_EQ(segments[0].nTiles, 64u);
  EXPECT_EQ(segments[1].nTiles, 64u);
  EXPECT_EQ(segments[2].nTiles, 3u);
  EXPECT_FALSE(segments[0].keptRaw);
}

TEST(Segments, AnEmptyBucketHasNone) {
  EXPECT_TRUE(segmentsOf(0, {}).empty());
}

TEST(Segments, OneValueIsATile) {
  EXPECT_EQ(cut({{1, 2}}), (Tiles{1}));
}

TEST(Segments, LayersThatEndAtTiles) {
  EXPECT_EQ(cut({{2 * kTile, 2}, {kTile, 2}, {3 * kTile, 2}}), (Tiles{2, 1, 3}));
}

TEST(Segments, ATileGoesToTheLayerWithMostOfIt) {
  EXPECT_EQ(cut({{2 * kTile + 513, 2}, {2 * kTile - 513, 2}}), (Tiles{3, 1}));
  EXPECT_EQ(cut({{2 * kTile + 511, 2}, {2 * kTile - 511, 2}}), (Tiles{2, 2}));
  EXPECT_EQ(cut({{2 * kTile + 512, 2}, {2 * kTile - 512, 2}}), (Tiles{3, 1}));  // equals: the first
}

TEST(Segments, SmallLayersGoWithTheirNeighbours) {
  EXPECT_EQ(cut({{4 * kTile, 2}, {100, 2}, {4 * kTile - 100, 2}}), (Tiles{4, 4}));
  const BucketLayout many(100, Layer{10, 2});  // none has a tile of its own
  const auto segments = cut(many);
  EXPECT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0], 1);
}

TEST(Segments, BiasesAreKeptRawWithEachTileThatTheyTouch) {
  EXPECT_EQ(cut({{4 * kTile, 2}, {kTile, 1}, {4 * kTile, 2}}), (Tiles{4, -1, 4}));
  EXPECT_EQ(cut({{4 * kTile, 2}, {kTile, 0}, {4 * kTile, 2}}), (Tiles{4, -1, 4}));
  EXPECT_EQ(cut({{4 * kTile, 2}, {kTile, kUnknownDims}, {4 * kTile, 2}}), (Tiles{4, 1, 4}));
  EXPECT_EQ(cut({{4 * kTile, 2}, {1, 1}, {4 * kTile, 2}}), (Tiles{4, -1, 4}));
  EXPECT_EQ(cut({{4 * kTile - 1, 2}, {2, 1}, {4 * kTile, 2}}), (Tiles{3, -2, 4}));
}

// A bias, a scale and a shift one after another, or with a small matrix between them.
TEST(Segments, NeighboursThatAreKeptRawAreOne) {
  EXPECT_EQ(cut({{4 * kTile + 400, 2}, {200, 1}, {200, 1}, {200, 1}, {4 * kTile + 24, 2}}),
            (Tiles{4, -1, 4}));
  EXPECT_EQ(cut({{4 * kTile + 400, 2}, {200, 1}, {800, 2}, {200, 1}, {4 * kTile, 2}}),
            (Tiles{4, -2, 4}));
}

TEST(Segments, LongLayersAreCut) {
  EXPECT_EQ(cut({{10 * kTile, 2}, {3 * kTile, 2}}, 4), (Tiles{4, 4, 2, 3}));
  EXPECT_EQ(cut({{10 * kTile, 1}, {3 * kTile, 2}}, 4), (Tiles{-10, 3}));
}

TEST(Segments, LayersOfAnotherTotalAreNotBelieved) {
  const BucketLayout layers = {{2 * kTile, 1}, {2 * kTile, 2}};
  for (uint64_t count : {4 * kTile - 1, 4 * kTile + 1, 100 * kTile}) {
    const auto segments = segmentsOf(count, layers, kUncut);
    ASSERT_EQ(segments.size(), 1u);
    EXPECT_FALSE(segments[0].keptRaw);
    EXPECT_EQ(segments[0].nTiles, wire::ShardLayout::tilesOf(count));
  }
}

TEST(Segments, SingleTilesAreKeptRaw) {
  const std::vector<PrecisionSegment> segments{{4, false}, {3, true}, {5, false}};
  const auto with = [&](const std::vector<uint64_t>& raw) {
    return lengthsOf(withRawTiles(segments, raw));
  };
  EXPECT_EQ(with({}), (Tiles{4, -3, 5}));
  EXPECT_EQ(with({0}), (Tiles{-1, 3, -3, 5}));
  EXPECT_EQ(with({1, 2}), (Tiles{1, -1, -1, 1, -3, 5}));
  EXPECT_EQ(with({3, 5, 11}), (Tiles{3, -1, -1, -1, -1, 4, -1}));
  EXPECT_EQ(with({9}), (Tiles{4, -3, 2, -1, 2}));
}

TEST(Segments, NeverMoreThanTheMost) {
  const uint64_t count = uint64_t{kMaxSegments} * 64 * kTile;
  EXPECT_EQ(segmentsOf(count, {}).size(), kMaxSegments);
  EXPECT_LE(segmentsOf(count + 1, {}).size(), kMaxSegments);
  EXPECT_GT(segmentsOf(count + 1, {}).size(), kMaxSegments / 4);
  EXPECT_LE(segmentsOf(uint64_t{1} << 44, {}).size(), kMaxSegments);
  const BucketLayout many(kMaxSegments + 1, Layer{kTile, 2});
  EXPECT_LE(segmentsOf(countOf(many), many, 1).size(), kMaxSegments);
  EXPECT_EQ(tilesOf(segmentsOf(countOf(many), many, 1)), many.size());
}

// Against the rule as plainly as it can be put: who owns each value, and then each tile.
TEST(Segments, AgreeWithTheRuleValueByValue) {
  constexpr uint32_t kRaw = UINT32_MAX;
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    BucketLayout layers(1 + random() % 12);
    for (Layer& layer : layers)
      layer = {1 + random() % (round % 2 ? 700 : 5000), static_cast<uint8_t>(random() % 3)};
    std::vector<uint32_t> ownerOfValue;
    std::vector<bool> isRaw;  // by layer
    for (const Layer& layer : layers) {
      isRaw.push_back(layer.dims <= 1);
      ownerOfValue.insert(ownerOfValue.end(), layer.count, static_cast<uint32_t>(isRaw.size() - 1));
    }
    std::vector<uint32_t> owners;  // of tiles; all that are kept raw have the same
    for (size_t first = 0; first < ownerOfValue.size(); first += kTile) {
      std::vector<uint64_t> share(isRaw.size());
      for (size_t i = first; i < std::min<size_t>(first + kTile, ownerOfValue.size()); ++i)
        ++share[ownerOfValue[i]];
      bool hasRaw = false;
      for (size_t owner = 0; owner < share.size(); ++owner)
        hasRaw = hasRaw || (isRaw[owner] && share[owner] > 0);
      owners.push_back(hasRaw ? kRaw
                              : static_cast<uint32_t>(std::max_element(share.begin(), share.end()) -
                                                      share.begin()));
    }
    Tiles expected;
    for (size_t i = 0; i < owners.size(); ++i) {
      if (i == 0 || owners[i] != owners[i - 1]) expected.push_back(0);
      expected.back() += owners[i] == kRaw ? -1 : 1;
    }
    ASSERT_EQ(cut(layers), expected) << "round " << round;
  }
}

}  // namespace
}  // namespace cinch
