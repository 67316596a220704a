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
          ASSERT_LE(wire::kHeaderBytes + tiles * codec.format.tileBytes(),
                    plan.chunk(0).messageBytes());
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
          ASSERT_EQ(plan.ownByteOffset(plan.chunk(0)), rank * count * 4);
          ASSERT_LE(count, plan.layout.shardTiles(rank) * wire::kTileElems);
          ASSERT_EQ(plan.chunk(0).shardAlone(rank).count, count);
          ASSERT_EQ(plan.chunk(0).shardAlone(rank).strideBytes(), plan.chunk(0).messageBytes())
              << "what is encoded alone lies where the whole bucket's layout wants it";
        }
}

TEST(CollectivePlan, MessagesAreEqualAlignedAndFillTheBuffer) {
  for (const CallKind kind : kKinds)
    for (const codec::CodecInfo& codec : codec::kCodecs)
      for (const uint64_t count : kCounts)
        for (uint32_t ranks = 1; ranks <= 9; ++ranks) {
          const auto plan = planOf(kind, count, ranks - 1, ranks, codec.format);
          ASSERT_EQ(plan.chunk(0).messageBytes() % 16, 0u) << "16-byte accesses stay aligned";
          ASSERT_EQ(plan.bufferBytes(), plan.chunk(0).messageBytes() * ranks);
          ASSERT_EQ(plan.chunk(0).shardOffset(ranks), plan.bufferBytes());
          ASSERT_EQ(plan.chunk(0).messageBytes(),
                    planOf(kind, count, 0, ranks, codec.format).chunk(0).messageBytes());
        }
}

// Each is a bucket of its own to messages and launches; together they are the bucket.
TEST(CollectivePlan, ChunksLieOneBehindTheOtherAndCoverTheShards) {
  for (const uint64_t count : kCounts)
    for (uint32_t ranks = 1; ranks <= 9; ++ranks)
      for (uint32_t nChunks = 1; nChunks <= kMaxChunks; ++nChunks) {
        const auto plan = planCollective({CallKind::allReduce, OpClass::sum, ncclBfloat16, count},
                                         ElementType::bf16, kQ4, ranks - 1, ranks, {nChunks});
        ASSERT_EQ(plan.nChunks(), nChunks);
        uint64_t offset = 0, owned = 0;
        for (uint32_t index = 0; index < nChunks; ++index) {
          const ChunkPlan chunk = plan.chunk(index);
          ASSERT_EQ(chunk.bufferOffset, offset);
          ASSERT_EQ(chunk.bufferOffset % 16, 0u);
          ASSERT_EQ(plan.ownByteOffset(chunk),
                    (plan.layout.firstElem(plan.rank) + owned) * sizeof(uint16_t));
          ASSERT_EQ(plan.residualOffset(ResidualType::fp32, chunk), owned * sizeof(float));
          offset += chunk.shardOffset(ranks);
          owned += chunk.layout.shardElems(plan.rank);
        }
        ASSERT_EQ(plan.bufferBytes(), offset);
        ASSERT_EQ(owned, plan.layout.shardElems(plan.rank));
        ASSERT_EQ(plan.wireBytes(), 2 * (ranks - 1) * (offset / ranks));
      }
}

// Both ranks have the same plan but for their number, and send all of it once.
TEST(CollectivePlan, APairSendsTheBucketAsOneShard) {
  for (const uint64_t count : kCounts)
    for (uint32_t nChunks = 1; nChunks <= kMaxChunks; ++nChunks) {
      const auto planAt = [&](uint32_t rank, bool mayPair) {
        return planCollective({CallKind::allReduce, OpClass::avg, ncclBfloat16, count},
                              ElementType::bf16, kQ4, rank, 2, {nChunks, mayPair});
      };
      const CollectivePlan plan = planAt(1, true);
      ASSERT_TRUE(plan.isPair);
      ASSERT_TRUE(plan.exchanges() && !plan.gathers());
      ASSERT_EQ(plan.nRanks(), 2u);
      ASSERT_EQ(plan.factor, 0.5f);
      ASSERT_EQ(plan.planId, planAt(0, true).planId);
      ASSERT_NE(plan.planId, planAt(1, false).planId);
      ASSERT_EQ(plan.wireBytes(), plan.bufferBytes());
      ASSERT_EQ(plan.uncompressedWireBytes(), planAt(1, false).uncompressedWireBytes());
      ASSERT_EQ(plan.encodeResidualBytes(ResidualType::fp32), 4 * count);
      ASSERT_EQ(plan.reduceResidualBytes(ResidualType::fp32), 0u);
      uint64_t offset = 0, first = 0;
      for (uint32_t index = 0; index < nChunks; ++index) {
        const ChunkPlan chunk = plan.chunk(index);
        ASSERT_EQ(chunk.bufferOffset, offset);
        ASSERT_EQ(chunk.layout.firstElem(0), first);
        offset += chunk.messageBytes();
        first += chunk.layout.shardElems(0);
      }
      ASSERT_EQ(plan.bufferBytes(), offset);
      ASSERT_EQ(first, count);
    }
}

TEST(CollectivePlan, OnlyAllReducesOfTwoRanksArePairs) {
  for (const CallKind kind : kKinds)
    for (uint32_t ranks = 1; ranks <= 9; ++ranks) {
      const auto plan = planCollective({kind, OpClass::sum, ncclFloat32, 1 << 20},
                                       ElementType::fp32, kQ8, 0, ranks, {1, true});
      EXPECT_EQ(plan.isPair, kind == CallKind::allReduce && ranks == 2);
      EXPECT_EQ(plan.nRanks(), ranks);
    }
}

TEST(CollectivePlan, OtherKindsHaveOneChunk) {
  for (const CallKind kind : {CallKind::reduceScatter, CallKind::allGather})
    EXPECT_EQ(planCollective({kind, OpClass::sum, ncclFloat32, 1 << 20}, ElementType::fp32, kQ8, 0,
                             4, {8})
                  .nChunks(),
              1u);
}

TEST(CollectivePlan, ManyValuesMakeManyChunks) {
  EXPECT_EQ(chunksOf(0, 2, 1000), 1u);
  EXPECT_EQ(chunksOf((2 << 20) - 1, 2, 1 << 20), 1u);
  EXPECT_EQ(chunksOf(2 << 20, 2, 1 << 20), 2u);
  EXPECT_EQ(chunksOf(uint64_t{1} << 40, 2, 1000), kMaxChunks);
}

// Else the padding of their messages would be more than the bucket.
TEST(CollectivePlan, SmallShardsAreNotCutIntoChunks) {
  for (const uint32_t nShards : {64u, 1024u}) {
    const uint64_t count = uint64_t{nShards} * 64 * 1024;
    EXPECT_EQ(chunksOf(count, nShards, 1), 1u);
    EXPECT_EQ(chunksOf(3 * count, nShards, 1), 3u);
  }
}

TEST(CollectivePlan, IdsDifferExactlyWhenPlansDo) {
  std::set<uint32_t> ids;
  size_t plans = 0;
  for (const CallKind kind : kKinds)
    for (const char* name : {"q2", "h2", "q3"})  // all codecs: more plans than 32 bits keep apart
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
  EXPECT_EQ(plan.chunk(0).messageBytes(), 16u + 1024u * 544u);
  EXPECT_EQ(plan.wireBytes(), 2u * 3u * plan.chunk(0).messageBytes());
  EXPECT_EQ(plan.inputBytes(), 16u << 20);
  EXPECT_EQ(plan.ownByteOffset(plan.chunk(0)), 4u << 20);
  EXPECT_EQ(plan.encodeResidualBytes(ResidualType::fp32), 16u << 20);
  EXPECT_EQ(plan.reduceResidualBytes(ResidualType::fp32), 4u << 20);
}

TEST(CollectivePlan, ReduceScatterAndAllGatherSendHalfOfItAndKeepNoResidual) {
  for (const CallKind kind : {CallKind::reduceScatter, CallKind::allGather}) {
    const auto plan = planOf(kind, 1u << 20, 1, 4);
    EXPECT_EQ(plan.chunk(0).messageBytes(), 16u + 1024u * 1056u);
    EXPECT_EQ(plan.wireBytes(), 3u * plan.chunk(0).messageBytes());
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
    EXPECT_EQ(plan.chunk(0).messageBytes(), 16 + ((1ull << 21) + 1) * 1056);
    EXPECT_EQ(plan.bufferBytes(), 8 * plan.chunk(0).messageBytes());
    EXPECT_EQ(plan.chunk(0).shardOffset(7), 7 * plan.chunk(0).messageBytes());
    EXPECT_EQ(plan.ownByteOffset(plan.chunk(0)), 7 * kShard * 4);
    EXPECT_EQ(plan.inputBytes(), 32 * kShard);
    EXPECT_EQ(plan.wireBytes(), 7 * plan.chunk(0).messageBytes());
  }
  const auto plan = planOf(CallKind::allReduce, 1ull << 34, 3, 4, kQ8);
  EXPECT_EQ(plan.chunk(0).messageBytes(), 16 + (1ull << 22) * 1056);
  EXPECT_EQ(plan.wireBytes(), 6 * plan.chunk(0).messageBytes());
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
