// Index arithmetic of the CUDA agents, in shards that no test has memory for.
#include "tests/unit/kernels/cuda/simt.h"
// The device language first, then what is written in it.
#include <gtest/gtest.h>

#include <set>

#include "kernels/cuda/agent/warp_tile.cuh"

namespace cinch::cuda {
namespace {

// Every octet of a tile belongs to one slot of one lane, and rows of four lanes share 128 values.
TEST(WarpTile, LanesShareOutTheOctets) {
  std::set<uint32_t> octets;
  for (threadIdx.x = 0; threadIdx.x < kWarpThreads; ++threadIdx.x)
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      octets.insert(octetOf(slot));
      EXPECT_EQ(octetOf(slot) / kRowOctets, threadIdx.x / kLanesPerRow);
    }
  EXPECT_EQ(octets.size(), kTileOctets);
  EXPECT_EQ(*octets.rbegin(), kTileOctets - 1);
}

TEST(WarpTile, CountsTheValuesOfOctets) {
  for (const uint32_t nValues : {1u, 7u, 8u, 130u, 1023u, 1024u}) {
    uint32_t sum = 0;
    for (threadIdx.x = 0; threadIdx.x < kWarpThreads; ++threadIdx.x)
      for (uint32_t slot = 0; slot < kSlots; ++slot) sum += TileExtent{nValues}.ofSlot(slot);
    EXPECT_EQ(sum, nValues);
  }
}

// The largest shards that dispatch accepts end where they should.
TEST(WarpTile, FindsTheEndOfAHugeShard) {
  const uint64_t most = kMaxRowTiles * kTileElems;
  for (const uint64_t nValues : {most, most - 1, most - 1023, (uint64_t{1} << 32) + 1027}) {
    const ShardView shard(wire::ShardLayout::fixed(nValues, 1, {4, 4, 4}), 0);
    EXPECT_EQ(shard.nValues, nValues);
    const uint64_t nTiles = shard.nTiles();
    ASSERT_LE(nTiles, kMaxRowTiles);
    const auto last = static_cast<uint32_t>(nTiles - 1);
    EXPECT_EQ(uint64_t{last} * kTileElems + shard.ofTile(last).nValues, nValues);
    EXPECT_TRUE(shard.ofTile(last - 1).isWhole());
  }
}

// With the largest grid of any device, walks do not wrap, and share the tiles between them.
TEST(WarpTile, WalksAreSharedOutToTheEnd) {
  gridDim = {2048, 1, 1};
  blockDim = {kThreadsPerCta, 1, 1};
  const uint32_t nWarps = gridDim.x * blockDim.x / kWarpThreads;
  for (const uint64_t nTiles : {kMaxRowTiles, (uint64_t{1} << 22) + 7}) {
    std::set<uint64_t> lastTiles;
    for (uint32_t warp = 0; warp < nWarps; ++warp) {
      blockIdx.x = warp * kWarpThreads / blockDim.x;
      threadIdx.x = warp * kWarpThreads % blockDim.x;
      TileWalk walk(nTiles);
      ASSERT_EQ(walk.tile, warp);
      ASSERT_EQ(walk.stride, nWarps);
      walk.tile += (walk.end - 1 - walk.tile) / walk.stride * walk.stride;
      ASSERT_FALSE(walk.atEnd());
      lastTiles.insert(walk.tile);
      walk.advance();
      ASSERT_TRUE(walk.atEnd());
    }
    EXPECT_EQ(lastTiles.size(), nWarps);
    EXPECT_EQ(*lastTiles.rbegin(), nTiles - 1);
    EXPECT_EQ(*lastTiles.begin(), nTiles - nWarps);
  }
}

}  // namespace
}  // namespace cinch::cuda
