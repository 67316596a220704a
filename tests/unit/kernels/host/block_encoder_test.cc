// Where a block lies in a shard, also in shards that no test has memory for.
#include "kernels/host/block_encoder.h"

#include <gtest/gtest.h>

namespace cinch::host {
namespace {

void expectSpans(uint64_t nValues) {
  const uint64_t nBlocks = blocksOf(nValues);
  ASSERT_EQ(nBlocks, nValues / 128 + (nValues % 128 > 0)) << nValues;
  const BlockSpan last = spanOf(nBlocks - 1, nValues);
  EXPECT_EQ(last.first, (nBlocks - 1) * 128) << nValues;
  EXPECT_EQ(last.first + last.nValues, nValues);
  if (nBlocks > 1) {
    const BlockSpan before = spanOf(nBlocks - 2, nValues);
    EXPECT_TRUE(before.isWhole());
    EXPECT_EQ(before.first + before.nValues, last.first);
  }
}

TEST(BlockSpan, CoversShardsOfAnySize) {
  EXPECT_EQ(blocksOf(0), 0u);
  for (uint64_t base :
       {uint64_t{128}, uint64_t{1} << 31, uint64_t{1} << 32, uint64_t{1} << 33, uint64_t{1} << 40})
    for (uint64_t more : {0, 1, 127, 128, 129, 1000}) expectSpans(base + more);
}

}  // namespace
}  // namespace cinch::host
