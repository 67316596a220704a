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

TEST(MixedLayout, TellsWhichCodecsThereAre) {
  const CodecFormat q4 = codec::formatOf("q4"), h3 = codec::formatOf("h3"), experiment{240, 2, 2};
  const std::vector<Segment> two = {{3, q4}, {1, h3}, {2, q4}}, other = {{1, q4}, {1, experiment}};
  EXPECT_EQ(MixedLayout(6 * kTileElems, 2, two).layout().mixedCodecs,
            uint64_t{1} << q4.id | uint64_t{1} << h3.id);
  EXPECT_EQ(MixedLayout(2 * kTileElems, 2, other).layout().mixedCodecs, uint64_t{1} << q4.id | 1);
  EXPECT_EQ(MixedLayout(6 * kTileElems, 2, two, 3).layout().ofChunk(1).mixedCodecs,
            uint64_t{1} << q4.id | uint64_t{1} << h3.id);
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
  constexpr uint64_t kLargestTile = 4096;
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

// Every tile is in one chunk of its shard, and chunks are equal to within a tile.
void expectChunks(const ShardLayout& whole, uint64_t largestTile) {
  uint64_t tile = 0;
  for (uint32_t shard = 0; shard < whole.nShards; ++shard) {
    EXPECT_EQ(whole.firstTile(shard), tile);
    for (uint32_t index = 0; index < whole.nChunks; ++index) {
      const ShardLayout chunk = whole.ofChunk(index);
      EXPECT_EQ(chunk.firstTile(shard), tile);
      EXPECT_EQ(chunk.firstElem(shard), std::min(tile * kTileElems, whole.count));
      EXPECT_GE(chunk.strideBytes(), chunk.usedBytes(shard));
      EXPECT_LE(chunk.strideBytes(), whole.ofChunk(0).strideBytes() + 2 * largestTile);
      uint64_t inPieces = 0;
      for (uint32_t i = 0; i < chunk.nPieces(shard); ++i) inPieces += chunk.piece(shard, i).nTiles;
      EXPECT_GE(inPieces, chunk.shardTiles(shard));
      tile += chunk.shardTiles(shard);
    }
    EXPECT_EQ(whole.firstTile(shard) + whole.shardTiles(shard), tile);
  }
  EXPECT_EQ(tile, whole.tiles());
}

TEST(MixedLayout, ChunksCoverTheirShards) {
  constexpr uint64_t kLargestTile = 4096;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const uint64_t nTiles = 1 + seed * 7 % 300, count = nTiles * kTileElems - seed % kTileElems;
    const uint32_t nShards = 1 + seed % 9, nChunks = 1 + seed % 8;
    const MixedLayout mixed(count, nShards, randomSegments(nTiles, seed), nChunks);
    expectChunks(mixed.layout(), kLargestTile);
    const CodecFormat codec = codec::formatOf("q4");
    expectChunks({count, nShards, codec, 0, nChunks}, codec.tileBytes());
  }
}

TEST(MixedLayout, ACopyOfTheTablesReadsTheSame) {
  const MixedLayout mixed(100 * kTileElems, 3, randomSegments(100, 4));
  std::vector<uint64_t> copy((mixed.tableBytes() + 7) / 8);
  mixed.copyTables(copy.data());
  EXPECT_EQ(codecsByTile(mixed.layoutAt(copy.data())), codecsByTile(mixed.layout()));
  EXPECT_EQ(mixed.layoutAt(copy.data()).strideBytes(), mixed.layout().strideBytes());
}

TEST(MixedLayout, ABucketOfNoValuesHasTablesToo) {
  const MixedLayout mixed(0, 3, {}, 2);
  std::vector<uint64_t> copy((mixed.tableBytes() + 7) / 8);
  mixed.copyTables(copy.data());
  EXPECT_EQ(mixed.layoutAt(copy.data()).ofChunk(0).nPieces(2), 0u);
  EXPECT_EQ(mixed.layout().strideBytes(), kHeaderBytes);
}

}  // namespace
}  // namespace cinch::wire
