#include "interpose/plan/host_plan.h"

#include <gtest/gtest.h>

#include "interpose/plan/collective_plan.h"
#include "kernels/codec/registry.h"

namespace cinch {
namespace {

using Ids = std::vector<uint64_t>;
using Ranks = std::vector<int>;

TEST(HostsOf, AreInTheOrderOfTheirFirstRanks) {
  EXPECT_EQ(hostsOf(Ids{7, 7, 3, 3}), (Hosts{{0, 1}, {2, 3}}));
  EXPECT_EQ(hostsOf(Ids{7, 3, 7, 3, 3}), (Hosts{{0, 2}, {1, 3, 4}}));
  EXPECT_EQ(hostsOf(Ids{1, 2, 3}), (Hosts{{0}, {1}, {2}}));
  EXPECT_EQ(hostsOf(Ids{}), Hosts{});
}

TEST(Lanes, AreForSeveralHostsWithSeveralRanks) {
  EXPECT_TRUE(mayHaveLanes({{0, 1}, {2, 3}}));
  EXPECT_TRUE(mayHaveLanes({{0, 1, 2}, {3}}));
  EXPECT_TRUE(mayHaveLanes({{0, 1, 2, 3}, {4}}));
  EXPECT_FALSE(mayHaveLanes({{0, 1, 2, 3, 4}, {5}})) << "one lane for five";
  EXPECT_FALSE(mayHaveLanes({{0}, {1}})) << "nothing to sum up";
  EXPECT_FALSE(mayHaveLanes({{0, 1, 2}})) << "one host";
  EXPECT_FALSE(mayHaveLanes({}));
}

TEST(HostPlan, OfEvenHostsGivesEachRankALane) {
  const HostPlan plan = planHosts({{0, 2}, {1, 3}}, 3, 5000, ElementType::bf16);
  EXPECT_EQ(plan.nLanes(), 2u);
  EXPECT_EQ(plan.nHosts, 2u);
  EXPECT_EQ(plan.nRanks, 4u);
  EXPECT_EQ(plan.host, 1u);
  EXPECT_EQ(plan.index, 1u);
  EXPECT_EQ(plan.local, (Ranks{1, 3}));
  EXPECT_EQ(plan.owners, (Ranks{2, 3}));
  // 5 tiles: 3 and, but for what the last one lacks, 2.
  EXPECT_EQ(plan.partOffset(1), 3 * 1024 * 2u);
  EXPECT_EQ(plan.partBytes(0), 3 * 1024 * 2u);
  EXPECT_EQ(plan.partBytes(1), (5000 - 3 * 1024) * 2u);
  EXPECT_EQ(plan.ownElems(), 5000u - 3 * 1024);
}

TEST(HostPlan, OfUnevenHostsHasTheLanesOfTheSmallest) {
  const Hosts hosts{{0, 1, 2}, {3}};
  for (const int rank : {0, 3}) {
    const HostPlan plan = planHosts(hosts, rank, 5000, ElementType::fp32);
    EXPECT_EQ(plan.nLanes(), 1u);
    EXPECT_TRUE(plan.ownsLane());
    EXPECT_EQ(plan.owners, (Ranks{0, 3}));
    EXPECT_EQ(plan.ownElems(), 5000u);
  }
  for (const int rank : {1, 2}) {
    const HostPlan plan = planHosts(hosts, rank, 5000, ElementType::fp32);
    EXPECT_FALSE(plan.ownsLane());
    EXPECT_EQ(plan.owners, Ranks{});
    EXPECT_EQ(plan.ownElems(), 0u);
    EXPECT_EQ(plan.local, (Ranks{0, 1, 2}));
  }
}

TEST(HostPlan, HasNoMoreLanesThanTiles) {
  const HostPlan plan = planHosts({{0, 1, 2}, {3, 4, 5}}, 5, 1500, ElementType::fp32);
  EXPECT_EQ(plan.nLanes(), 2u);
  EXPECT_FALSE(plan.ownsLane());
}

TEST(HostPlan, PartsCoverTheBucketAndNeedTheSameRoomOnAllRanks) {
  const Hosts hosts{{0, 3, 5, 6}, {1, 2}, {4, 7, 8}};
  for (const uint64_t count : {1ull, 1024ull, 1025ull, 5000ull, 99999ull}) {
    const HostPlan first = planHosts(hosts, 0, count, ElementType::fp16);
    EXPECT_GE(first.roomBytes(100), first.sumBytes() + 100);
    EXPECT_GE(first.roomBytes(0), 3 * first.partBytes(0));
    EXPECT_EQ(first.sumBytes() % 16, 0u);
    EXPECT_EQ(first.partStride() % 16, 0u);
    for (int rank = 0; rank < 9; ++rank) {
      const HostPlan plan = planHosts(hosts, rank, count, ElementType::fp16);
      EXPECT_EQ(plan.roomBytes(100), first.roomBytes(100));
      uint64_t end = 0;
      for (uint32_t lane = 0; lane < plan.nLanes(); ++lane) {
        EXPECT_EQ(plan.partOffset(lane), end);
        EXPECT_GT(plan.partBytes(lane), 0u);
        EXPECT_LE(plan.partBytes(lane), plan.partStride());
        end += plan.partBytes(lane);
      }
      EXPECT_EQ(end, count * 2);
    }
  }
}

class PlanLane : public testing::Test {
 protected:
  static CollectivePlan planOf(const Hosts& hosts, int rank, OpClass op = OpClass::sum) {
    return planLane({CallKind::allReduce, op, ncclBfloat16, kCount}, ElementType::bf16,
                    codec::formatOf("q4"),
                    std::make_shared<HostPlan>(planHosts(hosts, rank, kCount, ElementType::bf16)));
  }
  static constexpr uint64_t kCount = 100003;
};

TEST_F(PlanLane, IsOfTheLanesPartAmongItsOwners) {
  const CollectivePlan plan = planOf({{0, 1}, {2, 3}}, 3, OpClass::avg);
  EXPECT_EQ(plan.layout.count, kCount - 49 * 1024);
  EXPECT_EQ(plan.nRanks(), 2u);
  EXPECT_EQ(plan.rank, 1u);
  EXPECT_EQ(plan.factor, 0.25f) << "of all ranks";
  EXPECT_EQ(plan.type, ElementType::bf16);
  EXPECT_EQ(plan.inputType(), ElementType::fp32);
  EXPECT_EQ(plan.ownByteOffset(plan.chunk(0)), plan.layout.firstElem(1) * 4);
}

TEST_F(PlanLane, OfTwoHostsMayBeAPair) {
  const Hosts hosts = {{0, 1}, {2, 3}};
  const auto own = std::make_shared<HostPlan>(planHosts(hosts, 3, kCount, ElementType::bf16));
  const CollectivePlan plan = planLane({CallKind::allReduce, OpClass::avg, ncclBfloat16, kCount},
                                       ElementType::bf16, codec::formatOf("q4"), own, {2, true});
  EXPECT_TRUE(plan.isPair);
  EXPECT_EQ(plan.factor, 0.25f) << "of all ranks";
  EXPECT_EQ(plan.largestLayout().count, 49 * 1024u);
  EXPECT_EQ(plan.largestLayout().nShards, 1u);
  EXPECT_GE(plan.largestLayout().chunkBytes(2), plan.bufferBytes());
  EXPECT_EQ(plan.uncompressedWireBytes(), 2 * 3 * (2 * kCount / 4) / 2);
}

TEST_F(PlanLane, OwnersAgreeOnItsBytes) {
  for (const int lane : {0, 1}) {
    const CollectivePlan a = planOf({{0, 1}, {2, 3}}, lane), b = planOf({{0, 1}, {2, 3}}, 2 + lane);
    EXPECT_EQ(a.planId, b.planId);
    EXPECT_EQ(a.bufferBytes(), b.bufferBytes());
  }
}

TEST_F(PlanLane, FiguresAreOfTheBucketAndOfWhatLeavesTheHost) {
  const CollectivePlan plan = planOf({{0, 1}, {2, 3}}, 0);
  EXPECT_EQ(plan.bucketElems(), kCount);
  EXPECT_EQ(plan.inputBytes(), 2 * kCount);
  // 49 tiles on two hosts: 25 and a header, there and back.
  EXPECT_EQ(plan.wireBytes(), 2 * (16 + 25 * 544u));
  EXPECT_EQ(plan.uncompressedWireBytes(), 2 * 3 * (2 * kCount / 4) / 2);
}

TEST_F(PlanLane, HasChunksOfItsPart) {
  const auto hosts =
      std::make_shared<HostPlan>(planHosts({{0, 1}, {2, 3}}, 1, kCount, ElementType::bf16));
  const CollectivePlan plan = planLane({CallKind::allReduce, OpClass::sum, ncclBfloat16, kCount},
                                       ElementType::bf16, codec::formatOf("q4"), hosts, {3});
  EXPECT_EQ(plan.nChunks(), 3u);
  EXPECT_EQ(plan.largestLayout().nChunks, 3u);
  EXPECT_GE(plan.largestLayout().chunkBytes(3), plan.bufferBytes());
  EXPECT_EQ(plan.ownByteOffset(plan.chunk(0)), 0u) << "the first shard's first";
  EXPECT_GT(plan.ownByteOffset(plan.chunk(1)), 0u);
}

TEST_F(PlanLane, WithoutOneIsEmpty) {
  const CollectivePlan plan = planOf({{0, 1, 2}, {3}}, 2);
  EXPECT_TRUE(plan.isIdle());
  EXPECT_EQ(plan.wireBytes(), 0u);
  EXPECT_EQ(plan.bitsPerValue(), 0);
  EXPECT_EQ(plan.encodeResidualBytes(ResidualType::fp32), 0u);
  EXPECT_EQ(plan.reduceResidualBytes(ResidualType::int8), 0u);
  EXPECT_EQ(plan.inputBytes(), 2 * kCount) << "it has its part in the scatter";
  EXPECT_EQ(plan.largestLayout().count, kCount);
}

}  // namespace
}  // namespace cinch
