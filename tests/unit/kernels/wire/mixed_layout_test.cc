#include "kernels/wire/mixed_layout.h"

#include <gtest/gtest.h>

#include <random>

#include "kernels/codec/registry.h"

namespace cinch::wire {
namespace {

std::vector<Segment> randomSegments(uint64_t nTiles, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Segment> segments;
  while (nTiles > 0) {
    const uint64_t n = std::min<uint64_t>(nTiles, 1 + random() % 40);
    segments.push_back({n, codec::kCodecs[random() % codec::kCodecs.size()].format});
    nTiles -= n;
  }
  return segments;
}

// The codec of every tile of the bucket, as the pieces have it.
std::vector<uint8_t> codecsByTile(const ShardLayout& layout) {
  std::vector<uint8_t> codecs;
  for (uint32_t shard = 0; shard < layout.nShards; ++shard)
    for (uint32_t i = 0; i < layout.nPieces(shard); ++i)
      codecs.insert(codecs.end(), layout.piece(shard, i).nTiles, layout.piece(shard, i).codec.id);
  return codecs;
}

TEST(MixedLayout, PiecesCoverEveryTileOnceWithItsSegmentsCodec) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const uint64_t nTiles = 1 + seed * 7 % 300;
    const auto segments = randomSegments(nTiles, seed);
    const MixedLayout mixed(nTiles * kTileElems - seed % kTileElems, 1 + seed % 9, segments);
    std::vector<uint8_t> expected;
    for (const Segment& segment : segments)
      expected.insert(expected.end(), segment.nTiles, segment.codec.id);
    EXPECT_EQ(codecsByTile(mixed.layout()), expected) << seed;
  }
}

TEST(MixedLayout, PiecesFollowOneAnotherInsideTheirShard) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const uint64_t nTiles = 1 + seed * 7 % 300;
    const MixedLayout mixed(nTiles * kTileElems, 1 + seed % 9, randomSegments(nTiles, seed));
    const ShardLayout layout = mixed.layout();
    uint64_t elems = 0;
    for (uint32_t shard = 0; shard < layout.nShards; ++shard) {
      uint64_t tile = 0, offset = kHeaderBytes;
      for (uint32_t i = 0; i < layout.nPieces(shard); ++i) {
        const Piece piece = layout.piece(shard, i);
        EXPECT_EQ(piece.firstTile, tile);
        EXPECT_EQ(piece.offset, offset);
        EXPECT_EQ(piece.offset % kAlignment, 0u);
        tile += piece.nTiles;
        offset += piece.nTiles * piece.codec.tileBytes();
      }
      EXPECT_EQ(layout.usedBytes(shard), offset);
      EXPECT_LE(offset, layout.strideBytes());
      EXPECT_EQ(layout.shardTiles(shard), tile);
      elems += layout.shardElems(shard);
    }
    EXPECT_EQ(elems, layout.count);
  }
}

TEST(MixedLayout, ShardsAreEqualToWithinATile) {
  constexpr uint64_t kLargestTile = 2064;
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const uint32_t nShards = 2 + seed % 7;
    const MixedLayout mixed(4000 * kTileElems, nShards, randomSegments(4000, seed));
    const ShardLayout layout = mixed.layout();
    uint64_t total = 0;
    for (uint32_t shard = 0; shard < nShards; ++shard) total += layout.usedBytes(shard);
    EXPECT_LE(layout.strideBytes(), total / nShards + kLargestTile) << seed;
  }
}

TEST(MixedLayout, ABucketOfFewTilesLeavesShardsEmpty) {
  const Segment one{1, codec::formatOf("q4")};
  const MixedLayout mixed(5, 4, {&one, 1});
  const ShardLayout layout = mixed.layout();
  uint64_t elems = 0;
  for (uint32_t shard = 0; shard < 4; ++shard) elems += layout.shardElems(shard);
  EXPECT_EQ(elems, 5u);
  EXPECT_EQ(layout.strideBytes(), kHeaderBytes + 544u);
}

TEST(MixedLayout, ACopyOfTheTablesReadsTheSame) {
  const MixedLayout mixed(100 * kTileElems, 3, randomSegments(100, 4));
  std::vector<uint64_t> copy((mixed.tableBytes() + 7) / 8);
  mixed.copyTables(copy.data());
  EXPECT_EQ(codecsByTile(mixed.layoutAt(copy.data())), codecsByTile(mixed.layout()));
  EXPECT_EQ(mixed.layoutAt(copy.data()).strideBytes(), mixed.layout().strideBytes());
}

}  // namespace
}  // namespace cinch::wire
