// AllReduces of two ranks, or of two hosts, which send each other whole buckets, on the fakes.
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

constexpr size_t kCount = 100003;

// Of both ranks.
const Calls kExchange = {"GroupStart", "Send 1", "Recv 1", "Send 0",
                         "Recv 0",     "encode", "encode", "GroupEnd"};
const Calls kReduce = {"reduce", "reduce"};

class PairTest : public test::JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    ranks_ = test::makeRanks(2);
  }
  void TearDown() override {
    test::awaitBackground(ranks_);
    EXPECT_TRUE(fakeReal().isIdle());
  }
  void startOver(const Placement& hosts = {0, 1}) {
    test::awaitBackground(ranks_);
    ranks_.clear();
    test::resetFakes();
    ranks_ = test::makeRanks(hosts);
  }
  static uint32_t nChunks(const Work& work) { return work.slot(0).plan.nChunks(); }

  static void expectCompressed(const Work& work, float factor = 1) {
    for (int rank = 0; rank < work.nRanks(); ++rank) {
      EXPECT_LT(work.errorOf(rank, factor), 0.01) << "rank " << rank;
      EXPECT_GT(work.errorOf(rank, factor), 1e-5) << "rank " << rank;
      EXPECT_EQ(work.received(rank), work.received(0)) << "rank " << rank;
    }
  }

  test::TestRanks ranks_;
};

TEST_F(PairTest, HaveOneMessageForEachChunk) {
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  ASSERT_EQ(runInGroup({&work}), ncclSuccess);
  Calls expected = kExchange;
  for (uint32_t chunk = 1; chunk < nChunks(work); ++chunk)
    expected = expected + kExchange + kReduce;
  EXPECT_EQ(happened(), expected + kReduce);
  EXPECT_EQ(work.slot(1).state()->ordinal, 2u);
}

TEST_F(PairTest, ResultsAreCloseAndTheSameOnBothRanksCallAfterCall) {
  for (const size_t count : {kCount, size_t{20001}}) {
    const Work sum(ranks_, CallKind::allReduce, count);
    const Work average(ranks_, CallKind::allReduce, count, ncclAvg);
    getReady(sum);
    getReady(average);
    for (int call = 0; call < 24; ++call) {
      ASSERT_EQ(runInGroup({&sum}), ncclSuccess);
      ASSERT_EQ(runInGroup({&average, &sum}), ncclSuccess);
      expectCompressed(sum);
      expectCompressed(average, 0.5f);
    }
    EXPECT_EQ(sum.slot(1).state()->ordinal, 49u);
    EXPECT_EQ(ranks_[0]->comm->health(), ncclSuccess);
  }
}

TEST_F(PairTest, OweNothingForASumAndCountWhatTheySend) {
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  ASSERT_EQ(runInGroup({&work}), ncclSuccess);
  const Slot& slot = work.slot(0);
  EXPECT_NE(slot.residuals.pointers().encode, nullptr);
  EXPECT_EQ(slot.residuals.pointers().reduce, nullptr);
  EXPECT_EQ(slot.stats->wireBytes.load(), slot.plan.bufferBytes());
  EXPECT_EQ(slot.stats->bytesIn.load(), 4 * kCount);
  EXPECT_NEAR(slot.plan.bitsPerValue(), 4.25, 0.05);
}

TEST_F(PairTest, AreTheOwnersOfTwoHosts) {
  for (const Placement& hosts : {Placement{0, 0, 1, 1}, {0, 0, 0, 1}, {1, 0, 0, 1, 1}}) {
    SCOPED_TRACE(testing::PrintToString(hosts));
    startOver(hosts);
    const Work work(ranks_, CallKind::allReduce, kCount);
    const Work average(ranks_, CallKind::allReduce, kCount, ncclAvg);
    getReady(work);
    getReady(average);
    EXPECT_TRUE(work.slot(0).plan.isPair);
    for (int call = 0; call < 8; ++call) {
      ASSERT_EQ(runInGroup({&work, &average}), ncclSuccess);
      expectCompressed(work);
      expectCompressed(average, 1.0f / static_cast<float>(hosts.size()));
    }
  }
}

TEST_F(PairTest, MoreRanksAreNone) {
  startOver({0, 1, 2});
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  ASSERT_EQ(runInGroup({&work}), ncclSuccess);
  EXPECT_FALSE(work.slot(0).plan.isPair);
  expectCompressed(work);
}

TEST_F(PairTest, RunBesideScatteredAndGatheredCalls) {
  startOver({0, 1});
  const test::TestRanks four = test::makeRanks(4, 2);
  const Work pair(ranks_, CallKind::allReduce, kCount);
  const Work scattered(ranks_, CallKind::reduceScatter, 20000);
  const Work shards(four, CallKind::allReduce, 60000);
  for (const Work* work : {&pair, &scattered, &shards}) getReady(*work);
  for (int call = 0; call < 4; ++call) {
    ASSERT_EQ(runInGroup({&pair, &scattered, &shards, &pair}), ncclSuccess);
    expectCompressed(pair);
    expectCompressed(shards);
    for (int rank = 0; rank < 2; ++rank) EXPECT_LT(scattered.errorOf(rank), 1e-3);
  }
  test::awaitBackground(four);
}

TEST_F(PairTest, InGraphsDoTheSame) {
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  ASSERT_EQ(runInGroup({&work}), ncclSuccess);
  fakeDevice().captures[nullptr] = 11;
  for (int call = 0; call < 3; ++call) {
    ASSERT_EQ(runInGroup({&work}), ncclSuccess);
    expectCompressed(work);
  }
  fakeDevice().captures.clear();
}

TEST_F(PairTest, FailWithEveryErrorOfNccl) {
  for (int failAt = 1;; ++failAt) {
    SCOPED_TRACE(failAt);
    startOver();
    const Work work(ranks_, CallKind::allReduce, 20000);
    getReady(work);
    fakeReal().failAt = failAt;
    const ncclResult_t result = runInGroup({&work});
    EXPECT_EQ(fakeReal().depth, 0);
    const bool hasFailed = result != ncclSuccess;
    fakeReal() = {};
    if (!hasFailed) break;
    ASSERT_LT(failAt, 60);
  }
}

}  // namespace
}  // namespace cinch
