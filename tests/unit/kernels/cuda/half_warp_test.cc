// Index arithmetic of the CUDA agents, in shards that no test has memory for.
#include "tests/unit/kernels/cuda/simt.h"
// The device language first, then what is written in it.
#include <gtest/gtest.h>

#include <set>

#include "kernels/cuda/agent/half_warp.cuh"

namespace cinch::cuda {
namespace {

constexpr uint64_t kHugeShards[] = {(uint64_t{1} << 31) + 5, (uint64_t{1} << 32) + 1027,
                                    (uint64_t{1} << 33) + 128, kMaxRowBlocks * 128};

// The lane that holds a value finds it, and the next one does not exist.
TEST(HalfWarp, ReachesTheLastValueOfAHugeShard) {
  for (uint64_t nValues : kHugeShards) {
    const ShardExtent extent(nValues);
    const uint64_t last = nValues - 1;
    const auto block = static_cast<uint32_t>(last / wire::kBlockElems);
    EXPECT_EQ(extent.nBlocks(), block + 1) << nValues;
    threadIdx.x = static_cast<uint32_t>(last % wire::kBlockElems) / kValuesPerLane;
    const uint32_t n = extent.valuesOfLane(block);
    EXPECT_EQ(firstOfLane(block) + n, nValues);
    EXPECT_EQ(extent.valuesOfLane(block + 1), 0u);
  }
}

// With the largest grid of any device, walks do not wrap, and share the blocks between them.
TEST(HalfWarp, WalksAreSharedOutToTheEnd) {
  gridDim = {2048, 1};
  blockDim = {kThreadsPerCta, 1};
  const uint32_t nHalfWarps = gridDim.x * blockDim.x / kLanesPerBlock;
  for (uint64_t nBlocks : {kMaxRowBlocks, (uint64_t{1} << 26) + 7}) {
    std::set<uint64_t> lastBlocks;
    for (uint32_t halfWarp = 0; halfWarp < nHalfWarps; ++halfWarp) {
      blockIdx.x = halfWarp * kLanesPerBlock / blockDim.x;
      threadIdx.x = halfWarp * kLanesPerBlock % blockDim.x;
      BlockWalk walk(nBlocks);
      ASSERT_EQ(walk.block, halfWarp);
      ASSERT_EQ(walk.stride, nHalfWarps);
      walk.block += (walk.end - 1 - walk.block) / walk.stride * walk.stride;
      ASSERT_FALSE(walk.atEnd());
      lastBlocks.insert(walk.block);
      walk.advance();
      ASSERT_TRUE(walk.atEnd());
    }
    EXPECT_EQ(lastBlocks.size(), nHalfWarps);
    EXPECT_EQ(*lastBlocks.rbegin(), nBlocks - 1);
    EXPECT_EQ(*lastBlocks.begin(), nBlocks - nHalfWarps);
  }
}

}  // namespace
}  // namespace cinch::cuda
