#include "interpose/plan/all_reduce_plan.h"

#include <gtest/gtest.h>

#include <set>

namespace cinch {
namespace {

constexpr wire::Codec kCodecs[] = {wire::Codec::q2, wire::Codec::q4, wire::Codec::q8};

// Counts around every border: nothing, one value, tiles and shards cut short or exactly full.
const uint64_t kCounts[] = {0,     1,      127,     128,     1023,
                            1024,  1025,   4095,    4096,    4097,
                            65536, 100000, 1000003, 4500000, (1ull << 33) + 5};

TEST(AllReducePlan, ShardsCoverTheBucketOnceInOrder) {
  for (const uint64_t count : kCounts)
    for (uint32_t ranks = 1; ranks <= 17; ++ranks) {
      const auto plan = planAllReduce(count, ElementType::fp32, wire::Codec::q4, false, 0, ranks);
      uint64_t next = 0;
      for (uint32_t shard = 0; shard < ranks; ++shard) {
        ASSERT_EQ(plan.layout.firstElem(shard), next);
        next += plan.layout.shardElems(shard);
      }
      ASSERT_EQ(next, count);
    }
}

TEST(AllReducePlan, ShardsDifferByAtMostOneTileAndFitTheMessage) {
  for (const wire::Codec codec : kCodecs)
    for (const uint64_t count : kCounts)
      for (uint32_t ranks = 1; ranks <= 17; ++ranks) {
        const auto plan = planAllReduce(count, ElementType::bf16, codec, true, 0, ranks);
        for (uint32_t shard = 0; shard < ranks; ++shard) {
          const uint64_t tiles = plan.layout.shardTiles(shard);
          ASSERT_LE(tiles, plan.layout.shardTiles(0));
          ASSERT_LE(plan.layout.shardTiles(0), tiles + 1);
          ASSERT_LE(wire::kHeaderBytes + tiles * wire::tileBytes(codec), plan.messageBytes());
          ASSERT_LE(plan.layout.shardElems(shard), tiles * wire::kTileElems);
        }
        ASSERT_EQ(plan.messageBytes() % 16, 0u) << "messages keep 16-byte accesses aligned";
        ASSERT_EQ(plan.bufferBytes(), plan.messageBytes() * ranks);
      }
}

TEST(AllReducePlan, IdsDifferExactlyWhenPlansDo) {
  std::set<uint32_t> ids;
  size_t plans = 0;
  for (const wire::Codec codec : kCodecs)
    for (const ElementType type : {ElementType::fp32, ElementType::fp16, ElementType::bf16})
      for (const bool average : {false, true})
        for (const uint64_t count : kCounts)
          for (uint32_t ranks = 2; ranks <= 5; ++ranks, ++plans) {
            const auto plan = planAllReduce(count, type, codec, average, 0, ranks);
            const auto peer = planAllReduce(count, type, codec, average, ranks - 1, ranks);
            ASSERT_EQ(plan.planId, peer.planId) << "the own rank is not part of what must agree";
            ids.insert(plan.planId);
          }
  EXPECT_EQ(ids.size(), plans);
}

TEST(AllReducePlan, BytesOnTheWire) {
  // 4 ranks, 4 Mi values at 4 bits: 1024 tiles of 544 bytes and a header per shard, to 3 peers,
  // twice.
  const auto plan = planAllReduce(4u << 20, ElementType::fp32, wire::Codec::q4, false, 1, 4);
  EXPECT_EQ(plan.messageBytes(), 16u + 1024u * 544u);
  EXPECT_EQ(plan.wireBytes(), 2u * 3u * plan.messageBytes());
  EXPECT_EQ(plan.inputBytes(), 16u << 20);
  EXPECT_EQ(plan.ownByteOffset(), 4u << 20);
  EXPECT_EQ(plan.encodeResidualBytes(), 16u << 20);
  EXPECT_EQ(plan.reduceResidualBytes(), 4u << 20);
}

TEST(AllReducePlan, AveragesDivideByTheRanks) {
  EXPECT_EQ(planAllReduce(1024, ElementType::fp32, wire::Codec::q8, true, 0, 3).factor,
            1.0f / 3.0f);
  EXPECT_EQ(planAllReduce(1024, ElementType::fp32, wire::Codec::q8, false, 0, 3).factor, 1.0f);
}

}  // namespace
}  // namespace cinch
