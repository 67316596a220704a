#include "kernels/core/residual_layout.h"

#include <gtest/gtest.h>

#include <random>

#include "kernels/wire/mixed_layout.h"
#include "tests/unit/kernels/support.h"

namespace cinch::core {
namespace {

using wire::ShardLayout;

TEST(ResidualLayout, SizesOfTheDocument) {
  EXPECT_EQ(residualBytes(ResidualType::fp32, 5000), 20000u);
  EXPECT_EQ(residualBytes(ResidualType::bf16, 5000), 10000u);
  EXPECT_EQ(residualBytes(ResidualType::int8, 5000), 5u * 1056);
  EXPECT_EQ(residualBytes(ResidualType::int8, 5120), 5u * 1056);
  EXPECT_EQ(residualBytes(ResidualType::int8, 5121), 6u * 1056);
  EXPECT_EQ(residualBytes(ResidualType::int8, uint64_t{1} << 40), (uint64_t{1} << 30) * 1056);
}

// The parts of the shards follow one another and fill the bucket's, with as many bytes each as the
// shard would take alone.
void expectPartition(const ShardLayout& layout) {
  for (const ResidualType type : test::kResidualTypes) {
    uint64_t next = 0;
    for (uint32_t shard = 0; shard < layout.nShards; ++shard) {
      ASSERT_EQ(residualOffset(type, layout, shard), next) << test::nameOf(type) << " " << shard;
      next += residualBytes(type, layout.shardElems(shard));
    }
    ASSERT_EQ(residualBytes(type, layout), next) << test::nameOf(type);
  }
}

TEST(ResidualLayout, ShardsPartitionTheBucket) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 3000; ++round) {
    const uint64_t count = round < 1000 ? static_cast<uint64_t>(round) : random() % (1ull << 36);
    const auto nShards = static_cast<uint32_t>(1 + random() % 64);
    expectPartition({count, nShards, codec::formatOf("q4")});
    expectPartition({count, nShards, codec::formatOf("q4"), 0, 1 + nShards % 8});
    expectPartition(ShardLayout::fixed(count, nShards, codec::formatOf("q2")));
  }
}

// Shards of a mixed layout have as many tiles as their codes leave room for.
TEST(ResidualLayout, MixedShardsPartitionTheBucketToo) {
  const wire::Segment segments[] = {
      {7, codec::formatOf("q8")}, {9, codec::formatOf("q2")}, {1, codec::formatOf("h3")}};
  for (uint32_t nShards = 1; nShards <= 20; ++nShards) {
    const wire::MixedLayout mixed(16 * wire::kTileElems + 5, nShards, segments);
    expectPartition(mixed.layout());
    expectPartition(wire::MixedLayout(16 * wire::kTileElems + 5, nShards, segments, 3).layout());
  }
}

// The codec of the values has no say in how their residuals are kept.
TEST(ResidualLayout, DoesNotDependOnTheCodec) {
  for (const codec::CodecInfo& codec : codec::kCodecs)
    for (const ResidualType type : test::kResidualTypes) {
      const ShardLayout layout = ShardLayout::fixed(3001, 3, codec.format);
      const ShardLayout usual = ShardLayout::fixed(3001, 3, codec::formatOf("q4"));
      EXPECT_EQ(residualBytes(type, layout), residualBytes(type, usual)) << codec.name;
      EXPECT_EQ(residualOffset(type, layout, 2), residualOffset(type, usual, 2)) << codec.name;
    }
}

}  // namespace
}  // namespace cinch::core
