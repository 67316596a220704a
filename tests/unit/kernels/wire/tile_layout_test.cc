#include "kernels/wire/tile_layout.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/unit/kernels/support.h"

namespace cinch::wire {
namespace {

// Every byte of a shard belongs to exactly one of: header, a pair, a block's codes.
TEST(TileLayout, PartsFillAShardWithoutOverlap) {
  constexpr uint64_t kTiles = 3;
  for (Codec codec : test::kCodecs) {
    std::vector<int> owners(kHeaderBytes + kTiles * tileBytes(codec), 0);
    const auto own = [&](uint64_t first, uint64_t nBytes) {
      for (uint64_t i = first; i < first + nBytes; ++i) ++owners.at(i);
    };
    own(0, kHeaderBytes);
    for (uint64_t block = 0; block < kTiles * kTileBlocks; ++block) {
      own(pairOffset(codec, block), kBlockMetaBytes);
      own(codesOffset(codec, block), blockCodeBytes(codec));
    }
    for (int count : owners) ASSERT_EQ(count, 1) << test::nameOf(codec);
  }
}

TEST(TileLayout, SizesOfVersionOne) {
  EXPECT_EQ(tileBytes(Codec::q2), 288u);
  EXPECT_EQ(tileBytes(Codec::q4), 544u);
  EXPECT_EQ(tileBytes(Codec::q8), 1056u);
  EXPECT_EQ(pairOffset(Codec::q4, 0), 16u);
  EXPECT_EQ(codesOffset(Codec::q4, 0), 48u);
  EXPECT_EQ(codesOffset(Codec::q4, 7), 48u + 7 * 64);
  EXPECT_EQ(pairOffset(Codec::q4, 8), 16u + 544);
}

TEST(TileLayout, CodesComeBack) {
  std::mt19937 random(1);
  for (Codec codec : test::kCodecs) {
    std::vector<uint8_t> packed(blockCodeBytes(codec), 0);
    std::vector<uint32_t> codes(kBlockElems);
    for (uint32_t i = 0; i < kBlockElems; ++i) {
      codes[i] = static_cast<uint32_t>(random()) % (1u << bitsOf(codec));
      insertCode(codec, packed.data(), i, codes[i]);
    }
    for (uint32_t i = 0; i < kBlockElems; ++i)
      ASSERT_EQ(extractCode(codec, packed.data(), i), codes[i]) << test::nameOf(codec) << " " << i;
  }
}

TEST(TileLayout, FirstCodeIsInTheLowBits) {
  uint8_t packed[2] = {};
  insertCode(Codec::q4, packed, 0, 0x3);
  insertCode(Codec::q4, packed, 1, 0xa);
  insertCode(Codec::q4, packed, 2, 0xf);
  EXPECT_EQ(packed[0], 0xa3);
  EXPECT_EQ(packed[1], 0x0f);
}

// Shards follow one another, cover the bucket, begin at tiles and differ by at most one tile.
TEST(ShardLayout, CutsTheBucketEvenly) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 20000; ++round) {
    const uint64_t count = round < 3000 ? static_cast<uint64_t>(round) : random() % (1ull << 36);
    const auto nShards = static_cast<uint32_t>(1 + random() % 64);
    const ShardLayout layout{count, nShards, test::kCodecs[random() % 3]};
    uint64_t next = 0;
    for (uint32_t shard = 0; shard < nShards; ++shard) {
      ASSERT_EQ(layout.firstElem(shard), next);
      ASSERT_TRUE(next % kTileElems == 0 || next == count);
      next += layout.shardElems(shard);
      ASSERT_LE(layout.shardTiles(shard), layout.shardTiles(0));
      ASSERT_LE(layout.shardTiles(0), layout.shardTiles(shard) + 1);
    }
    ASSERT_EQ(next, count);
    ASSERT_EQ(layout.strideBytes() % 16, 0u);
    ASSERT_EQ(layout.totalBytes(), layout.strideBytes() * nShards);
  }
}

// Shards of NCCL's cut: equal numbers of values, each shard with tiles of its own.
TEST(ShardLayout, FixedShardsPartitionTheBucket) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20000; ++round) {
    const uint64_t shardElems = round < 3000 ? static_cast<uint64_t>(round) : random() >> 30;
    const auto nShards = static_cast<uint32_t>(1 + random() % 64);
    const ShardLayout layout = ShardLayout::fixed(shardElems, nShards, test::kCodecs[random() % 3]);
    ASSERT_EQ(layout.count, shardElems * nShards);
    const uint64_t tilesPerShard = shardElems / kTileElems + (shardElems % kTileElems > 0);
    for (uint32_t shard = 0; shard < nShards; ++shard) {
      ASSERT_EQ(layout.firstElem(shard), shard * shardElems);
      ASSERT_EQ(layout.shardElems(shard), shardElems);
      ASSERT_EQ(layout.firstTile(shard), shard * tilesPerShard);
      ASSERT_EQ(layout.shardTiles(shard), tilesPerShard);
    }
    ASSERT_EQ(layout.tiles(), tilesPerShard * nShards);
    ASSERT_EQ(layout.strideBytes(), kHeaderBytes + tilesPerShard * tileBytes(layout.codec));
    ASSERT_EQ(layout.strideBytes() % 16, 0u);
    ASSERT_EQ(layout.totalBytes(), layout.strideBytes() * nShards);
  }
}

// One shard alone is stored as it is among others.
TEST(ShardLayout, AFixedShardIsItsOwnLayout) {
  for (uint64_t shardElems : {uint64_t{1}, uint64_t{1024}, uint64_t{5001}, uint64_t{1} << 40}) {
    const ShardLayout all = ShardLayout::fixed(shardElems, 7, Codec::q8);
    const ShardLayout one = ShardLayout::fixed(shardElems, 1, Codec::q8);
    EXPECT_EQ(one.strideBytes(), all.strideBytes());
    EXPECT_EQ(one.shardTiles(0), all.shardTiles(6));
    EXPECT_EQ(one.totalBytes(), one.strideBytes());
  }
}

// Beyond 2^31 and 2^33 values nothing is cut off.
TEST(ShardLayout, HugeBucketsKeepTheirOffsets) {
  for (uint64_t shardElems : {(uint64_t{1} << 31) + 1, (uint64_t{1} << 33) + 1025}) {
    const ShardLayout layout = ShardLayout::fixed(shardElems, 8, Codec::q4);
    EXPECT_EQ(layout.firstElem(7), 7 * shardElems);
    EXPECT_EQ(layout.shardTiles(7), (shardElems + 1023) / 1024);
    EXPECT_EQ(layout.strideBytes(), 16 + (shardElems + 1023) / 1024 * 544);
    EXPECT_EQ(layout.totalBytes(), 8 * layout.strideBytes());

    const uint64_t lastBlock = (shardElems - 1) / kBlockElems;
    EXPECT_LT(codesOffset(Codec::q4, lastBlock) + blockCodeBytes(Codec::q4) - 1,
              layout.strideBytes());
    EXPECT_EQ(pairOffset(Codec::q4, lastBlock), 16 + lastBlock / 8 * 544 + lastBlock % 8 * 4);

    const ShardLayout freeCut{8 * shardElems, 8, Codec::q4};
    EXPECT_EQ(freeCut.firstElem(8), 8 * shardElems);
    EXPECT_GE(freeCut.shardElems(0), shardElems);
  }
}

}  // namespace
}  // namespace cinch::wire
