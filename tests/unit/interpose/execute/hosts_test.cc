// AllReduces that are summed inside the hosts first, on the fakes.
#include "interpose/execute/hosts.h"

#include <gtest/gtest.h>

#include "tests/unit/interpose/support/job.h"

namespace cinch {
namespace {

using test::fakeDevice;
using test::fakeReal;
using test::Placement;
using test::runInGroup;
using test::Work;
using test::operator+;
using Calls = std::vector<std::string>;

const Placement kPlacements[] = {{0, 0, 1, 1}, {0, 0, 0, 1},    {1, 0, 1, 0},
                                 {0, 1, 1, 2}, {0, 1, 0, 1, 1}, {2, 2, 2, 0, 0, 0, 1, 1, 1}};

class HostsTest : public test::JobTest {
 protected:
  void TearDown() override { EXPECT_TRUE(fakeReal().isIdle()); }

  static void expectCompressed(const Work& work, float factor = 1) {
    for (int rank = 0; rank < work.nRanks(); ++rank) {
      EXPECT_LT(work.errorOf(rank, factor), 0.02) << "rank " << rank;
      EXPECT_GT(work.errorOf(rank, factor), 1e-5) << "rank " << rank;
      EXPECT_EQ(work.received(rank), work.received(0)) << "rank " << rank;
    }
  }
};

TEST_F(HostsTest, EndWithTheSameBitsOnAllRanksWhereverTheseAre) {
  for (const Placement& hosts : kPlacements)
    for (const size_t count : {16385, 40000, 70001}) {
      SCOPED_TRACE(testing::PrintToString(hosts) + " " + std::to_string(count));
      const test::TestRanks ranks = test::makeRanks(hosts);
      const Work sum(ranks, CallKind::allReduce, count);
      const Work average(ranks, CallKind::allReduce, count, ncclAvg);
      getReady(sum);
      getReady(average);
      for (int call = 0; call < 4; ++call) {
        ASSERT_EQ(runInGroup({&sum}), ncclSuccess);
        ASSERT_EQ(runInGroup({&average, &sum}), ncclSuccess);
        expectCompressed(sum);
        expectCompressed(average, 1.0f / static_cast<float>(hosts.size()));
      }
      for (const auto& rank : ranks) EXPECT_EQ(rank->comm->health(), ncclSuccess);
    }
}

TEST_F(HostsTest, HaveFourGroupsOfMessages) {
  const test::TestRanks ranks = test::makeRanks(Placement{0, 0, 1, 1});
  const Work work(ranks, CallKind::allReduce, 40000);
  getReady(work);
  ASSERT_EQ(runInGroup({&work}), ncclSuccess);
  const Calls inHosts = {"Send 1", "Recv 1", "Send 0", "Recv 0",
                         "Send 3", "Recv 3", "Send 2", "Recv 2"};
  const Calls inLanes = {"Send 2", "Recv 2", "Send 3", "Recv 3",
                         "Send 0", "Recv 0", "Send 1", "Recv 1"};
  const auto group = [](const Calls& messages) {
    return Calls{"GroupStart"} + messages + Calls{"GroupEnd"};
  };
  const auto onAll = [](const char* launch) { return Calls(4, launch); };
  EXPECT_EQ(happened(), group(inHosts) + onAll("sum") + onAll("encode") + group(inLanes) +
                            onAll("reduce") + group(inLanes) + onAll("decode") + group(inHosts));
}

TEST_F(HostsTest, WithoutALaneOnlyGiveAndTake) {
  const test::TestRanks ranks = test::makeRanks(Placement{0, 0, 1});
  const Work work(ranks, CallKind::allReduce, 40000);
  getReady(work);
  ASSERT_EQ(runInGroup({&work}), ncclSuccess);
  EXPECT_EQ(
      happened(),
      (Calls{"GroupStart", "Recv 1", "Send 0", "GroupEnd", "sum",    "sum",      "encode", "encode",
             "GroupStart", "Send 2", "Recv 2", "Send 0",   "Recv 0", "GroupEnd", "reduce", "reduce",
             "GroupStart", "Send 2", "Recv 2", "Send 0",   "Recv 0", "GroupEnd", "decode", "decode",
             "GroupStart", "Send 1", "Recv 0", "GroupEnd"}));
  EXPECT_EQ(work.slot(1).calls, 1u);
  EXPECT_EQ(work.slot(1).stats->wireBytes.load(), 0u);
  EXPECT_EQ(work.slot(1).stats->bytesIn.load(), 160000u);
}

TEST_F(HostsTest, RunBesideCallsThatAllRanksExchange) {
  const test::TestRanks uneven = test::makeRanks(Placement{0, 0, 0, 1}, 1);
  const test::TestRanks flat = test::makeRanks(2, 2);
  const Work first(uneven, CallKind::allReduce, 50001), second(flat, CallKind::allReduce, 40000);
  const Work scattered(uneven, CallKind::reduceScatter, 20000);
  for (const Work* work : {&first, &second, &scattered}) getReady(*work);
  for (int call = 0; call < 3; ++call) {
    ASSERT_EQ(runInGroup({&first, &second, &scattered}), ncclSuccess);
    ASSERT_EQ(runInGroup({&second, &scattered, &first, &first}), ncclSuccess);
    expectCompressed(first);
    expectCompressed(second);
    for (int rank = 0; rank < 4; ++rank) EXPECT_LT(scattered.errorOf(rank), 1e-3);
  }
}

TEST_F(HostsTest, GetReadyWithoutTouchingAResult) {
  const test::TestRanks ranks = test::makeRanks(Placement{0, 1, 0, 1, 1});
  const Work work(ranks, CallKind::allReduce, 40000);
  getReady(work);
  for (int rank = 0; rank < 5; ++rank) EXPECT_EQ(work.received(rank), work.expected(rank));
}

TEST_F(HostsTest, InGraphsDoTheSame) {
  const test::TestRanks ranks = test::makeRanks(Placement{0, 0, 0, 1});
  const Work work(ranks, CallKind::allReduce, 40000);
  getReady(work);
  ASSERT_EQ(runInGroup({&work}), ncclSuccess);
  fakeDevice().captures[nullptr] = 11;
  for (int call = 0; call < 2; ++call) {
    ASSERT_EQ(runInGroup({&work}), ncclSuccess);
    expectCompressed(work);
  }
  fakeDevice().captures.clear();
}

TEST_F(HostsTest, FailWithEveryErrorOfNccl) {
  const Placement hosts = {0, 0, 1, 1};
  for (int failAt = 1; failAt < 40; ++failAt) {
    SCOPED_TRACE(failAt);
    test::resetFakes();
    const test::TestRanks ranks = test::makeRanks(hosts);
    const Work work(ranks, CallKind::allReduce, 20000);
    getReady(work);
    fakeReal().failAt = failAt;
    ASSERT_NE(runInGroup({&work}), ncclSuccess);
    EXPECT_EQ(fakeReal().depth, 0);
    fakeReal() = {};
  }
}

// What is owed belongs to the lane.
TEST_F(HostsTest, ResidualsAreOfALane) {
  const test::TestRanks ranks = test::makeRanks(Placement{0, 0, 0, 1, 1});
  const Work work(ranks, CallKind::allReduce, 40000);
  getReady(work);
  ASSERT_EQ(runInGroup({&work}), ncclSuccess);
  EXPECT_NE(work.slot(0).residuals.pointers().encode, nullptr);
  EXPECT_EQ(work.slot(2).residuals.pointers().encode, nullptr) << "it has no lane";
  EXPECT_EQ(work.slot(0).identity, work.slot(1).identity);
  EXPECT_NE(work.slot(0).residualIdentity(), work.slot(1).residualIdentity());
  EXPECT_NE(work.slot(0).residualIdentity(), work.slot(3).residualIdentity());
}

}  // namespace
}  // namespace cinch
