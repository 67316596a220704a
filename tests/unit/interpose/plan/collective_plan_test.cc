#include "interpose/plan/collective_plan.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/codec/registry.h"

namespace cinch {
namespace {

constexpr wire::CodecFormat kQ4 = codec::formatOf("q4");
constexpr wire::CodecFormat kQ8 = codec::formatOf("q8");
constexpr CallKind kKinds[] = {CallKind::allReduce, CallKind::reduceScatter, CallKind::allGather};
constexpr ElementType kTypes[] = {ElementType::fp32, ElementType::fp16, ElementType::bf16};

// Counts around every border: nothing, one value, tiles and shards cut short or exactly full, and
// more values and bytes than 32 bits hold.
const uint64_t kCounts[] = {0,
                            1,
                            127,
                            128,
                            1023,
                            1024,
                            1025,
                            4095,
                            4096,
                            4097,
                            65536,
                            100000,
                            1003,
                            450000,
                            1000003,
                            4500000,
                            1u << 31,
                            (1ull << 31) + 5,
                            (1ull << 33) + 5};

ncclDataType_t dataTypeOf(ElementType type) {
  if (type == ElementType::fp32) return ncclFloat32;
  return type == ElementType::fp16 ? ncclFloat16 : ncclBfloat16;
}

CollectivePlan planOf(CallKind kind, uint64_t count, uint32_t rank, uint32_t nRanks,
                      wire::CodecFormat codec = kQ8, ElementType type = ElementType::fp32,
                      OpClass op = OpClass::sum) {
  return planCollective({kind, op, dataTypeOf(type), count}, type, codec, rank, nRanks);
}

TEST(CollectivePlan, ShardsCoverTheBucketOnceInOrder) {
  for (const CallKind kind : kKinds)
    for (const uint64_t count : kCounts)
      for (uint32_t ranks = 1; ranks <= 17; ++ranks) {
        const auto plan = planOf(kind, count, 0, ranks);
        uint64_t next = 0;
        for (uint32_t shard = 0; shard < ranks; ++shard) {
          ASSERT_EQ(plan.layout.firstElem(shard), next);
          next += plan.layout.shardElems(shard);
        }
        ASSERT_EQ(next, plan.layout.count);
        ASSERT_EQ(next, kind == CallKind::allReduce ? count : count * ranks);
      }
}

TEST(CollectivePlan, FreeShardsDifferByAtMostOneTileAndFitTheMessage) {
  for (const codec::CodecInfo& codec : codec::kCodecs)
    for (const uint64_t count : kCounts)
      for (uint32_t ranks = 1; ranks <= 17; ++ranks) {
        const auto plan =
            planOf(CallKind::allReduce, count, 0, ranks, codec.format, ElementType::bf16);
        for (uint32_t shard = 0; shard < ranks; ++shard) {
          const uint64_t tiles = plan.layout.shardTiles(shard);
          ASSERT_LE(tiles, plan.layout.shardTiles(0));
          ASSERT_LE(plan.layout.shardTiles(0), tiles + 1);
          ASSERT_LE(wire::kHeaderBytes + tiles * codec.format.tileBytes(), plan.messageBytes());
          ASSERT_LE(plan.layout.shardElems(shard), tiles * wire::kTileElems);
        }
      }
}

// NCCL says which values are whose: rank r has count values from r * count on.
TEST(CollectivePlan, FixedShardsAreWhatNcclSaysAndFitTheMessage) {
  for (const CallKind kind : {CallKind::reduceScatter, CallKind::allGather})
    for (const uint64_t count : kCounts)
      for (uint32_t ranks = 1; ranks <= 17; ++ranks)
        for (uint32_t rank = 0; rank < ranks; ++rank) {
          const auto plan = planOf(kind, count, rank, ranks);
          ASSERT_EQ(plan.layout.shardElems(rank), count);
          ASSERT_EQ(plan.layout.firstElem(rank), rank * count);
          ASSERT_EQ(plan.ownByteOffset(), rank * count * 4);
          ASSERT_LE(count, plan.layout.shardTiles(rank) * wire::kTileElems);
          ASSERT_EQ(plan.ownShard().count, count);
          ASSERT_EQ(plan.ownShard().strideBytes(), plan.messageBytes())
              << "what is encoded alone lies where the whole bucket's layout wants it";
        }
}

TEST(CollectivePlan, MessagesAreEqualAlignedAndFillTheBuffer) {
  for (const CallKind kind : kKinds)
    for (const codec::CodecInfo& codec : codec::kCodecs)
      for (const uint64_t count : kCounts)
        for (uint32_t ranks = 1; ranks <= 9; ++ranks) {
          const auto plan = planOf(kind, count, ranks - 1, ranks, codec.format);
          ASSERT_EQ(plan.messageBytes() % 16, 0u) << "16-byte accesses stay aligned";
          ASSERT_EQ(plan.bufferBytes(), plan.messageBytes() * ranks);
          ASSERT_EQ(plan.shardOffset(ranks), plan.bufferBytes());
          ASSERT_EQ(plan.messageBytes(),
                    planOf(kind, count, 0, ranks, codec.format).messageBytes());
        }
}

TEST(CollectivePlan, IdsDifferExactlyWhenPlansDo) {
  std::set<uint32_t> ids;
  size_t plans = 0;
  for (const CallKind kind : kKinds)
    for (const char* name :
         {"q2", "c2", "q2-64"})  // all codecs: more plans than 32 bits keep apart
      for (const ElementType type : kTypes)
        for (const OpClass op : {OpClass::sum, OpClass::avg, OpClass::preMulSum})
          for (const uint64_t count : kCounts)
            for (uint32_t ranks = 2; ranks <= 5; ++ranks, ++plans) {
              const wire::CodecFormat format = codec::findCodec(name)->format;
              const auto plan = planOf(kind, count, 0, ranks, format, type, op);
              const auto peer = planOf(kind, count, ranks - 1, ranks, format, type, op);
              ASSERT_EQ(plan.planId, peer.planId) << "the own rank is not part of what must agree";
              ids.insert(plan.planId);
            }
  EXPECT_EQ(ids.size(), plans);
}

TEST(CollectivePlan, BytesOfAnAllReduce) {
  // 4 ranks, 4 Mi values at 4 bits: 1024 tiles of 544 bytes and a header per shard, to 3 peers,
  // twice.
  const auto plan = planOf(CallKind::allReduce, 4u << 20, 1, 4, kQ4);
  EXPECT_EQ(plan.messageBytes(), 16u + 1024u * 544u);
  EXPECT_EQ(plan.wireBytes(), 2u * 3u * plan.messageBytes());
  EXPECT_EQ(plan.inputBytes(), 16u << 20);
  EXPECT_EQ(plan.ownByteOffset(), 4u << 20);
  EXPECT_EQ(plan.encodeResidualBytes(ResidualType::fp32), 16u << 20);
  EXPECT_EQ(plan.reduceResidualBytes(ResidualType::fp32), 4u << 20);
}

TEST(CollectivePlan, ReduceScatterAndAllGatherSendHalfOfItAndKeepNoResidual) {
  for (const CallKind kind : {CallKind::reduceScatter, CallKind::allGather}) {
    const auto plan = planOf(kind, 1u << 20, 1, 4);
    EXPECT_EQ(plan.messageBytes(), 16u + 1024u * 1056u);
    EXPECT_EQ(plan.wireBytes(), 3u * plan.messageBytes());
    EXPECT_EQ(plan.inputBytes(), 16u << 20);
    EXPECT_EQ(plan.encodeResidualBytes(ResidualType::fp32), 0u);
    EXPECT_EQ(plan.reduceResidualBytes(ResidualType::fp32), 0u);
    EXPECT_EQ(plan.exchanges(), kind == CallKind::reduceScatter);
    EXPECT_EQ(plan.gathers(), kind == CallKind::allGather);
  }
}

TEST(CollectivePlan, SizesBeyond32BitsAreExact) {
  constexpr uint64_t kShard = (1ull << 31) + 1;  // values: 2^21 tiles and one more
  for (const CallKind kind : {CallKind::reduceScatter, CallKind::allGather}) {
    const auto plan = planOf(kind, kShard, 7, 8);
    EXPECT_EQ(plan.layout.count, 8 * kShard);
    EXPECT_EQ(plan.messageBytes(), 16 + ((1ull << 21) + 1) * 1056);
    EXPECT_EQ(plan.bufferBytes(), 8 * plan.messageBytes());
    EXPECT_EQ(plan.shardOffset(7), 7 * plan.messageBytes());
    EXPECT_EQ(plan.ownByteOffset(), 7 * kShard * 4);
    EXPECT_EQ(plan.inputBytes(), 32 * kShard);
    EXPECT_EQ(plan.wireBytes(), 7 * plan.messageBytes());
  }
  const auto plan = planOf(CallKind::allReduce, 1ull << 34, 3, 4, kQ8);
  EXPECT_EQ(plan.messageBytes(), 16 + (1ull << 22) * 1056);
  EXPECT_EQ(plan.wireBytes(), 6 * plan.messageBytes());
  EXPECT_EQ(plan.encodeResidualBytes(ResidualType::fp32), 1ull << 36);
  EXPECT_EQ(plan.reduceResidualBytes(ResidualType::fp32), 1ull << 34);
}

TEST(CollectivePlan, OnlyAveragesDivideByTheRanks) {
  for (const CallKind kind : {CallKind::allReduce, CallKind::reduceScatter}) {
    const auto factorOf = [&](OpClass op) {
      return planOf(kind, 1024, 0, 3, kQ8, ElementType::fp32, op).factor;
    };
    EXPECT_EQ(factorOf(OpClass::avg), 1.0f / 3.0f);
    EXPECT_EQ(factorOf(OpClass::sum), 1.0f);
    EXPECT_EQ(factorOf(OpClass::preMulSum), 1.0f) << "its scalar multiplies the input";
  }
}

}  // namespace
}  // namespace cinch
