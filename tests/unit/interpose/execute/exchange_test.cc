#include "interpose/execute/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/interpose/support/job.h"

namespace cinch {
namespace {

using test::fakeReal;

class ExchangeTest : public testing::Test {
 protected:
  void SetUp() override { test::resetFakes(); }

  const test::TestRank rank_{test::FakeRank{1, 3}, Joining::passing("test")};
  uint8_t outgoing_[48] = {}, incoming_[48] = {};
  const ShardBuffers shards_{outgoing_, incoming_, 16};
};

TEST_F(ExchangeTest, ToAndFromEveryPeerInRankOrder) {
  ASSERT_TRUE(exchangeShards(*rank_.comm, shards_, nullptr).ok());
  EXPECT_EQ(fakeReal().calls, (std::vector<std::string>{"Send 0", "Recv 0", "Send 2", "Recv 2"}));
  const auto& sent = fakeReal().waiting[0];
  ASSERT_EQ(sent.size(), 4u);
  for (const auto& call : sent) {
    EXPECT_EQ(call.count, 16u);
    EXPECT_EQ(call.type, ncclUint8);
    const uint8_t* const buffer = call.name == "Send" ? outgoing_ : incoming_;
    EXPECT_EQ(call.name == "Send" ? call.send : call.recv, buffer + 16 * call.peer);
  }
}

TEST_F(ExchangeTest, GathersInPlace) {
  ASSERT_TRUE(gatherShards(*rank_.comm, shards_, nullptr).ok());
  ASSERT_EQ(fakeReal().waiting[0].size(), 1u);
  const auto& call = fakeReal().waiting[0].front();
  EXPECT_EQ(call.name, "AllGather");
  EXPECT_EQ(call.send, outgoing_ + 16);
  EXPECT_EQ(call.recv, outgoing_);
  EXPECT_EQ(call.count, 16u);
}

class MessagesTest : public test::JobTest {
 protected:
  static size_t nCalls(const std::string& call) {
    const auto all = happened();
    return static_cast<size_t>(std::ranges::count_if(
        all, [&](const std::string& each) { return each.starts_with(call); }));
  }
  // Of an AllReduce of all ranks.
  static void expectMessages(const test::TestRanks& ranks, ncclRedOp_t op, size_t nSent,
                             size_t nGathers) {
    const test::Work work(ranks, CallKind::allReduce, 50001, op);
    getReady(work);
    ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
    EXPECT_EQ(nCalls("Send"), nSent);
    EXPECT_EQ(nCalls("AllGather"), nGathers);
    for (int rank = 0; rank < work.nRanks(); ++rank) {
      EXPECT_EQ(work.received(rank), work.received(0)) << rank;
      EXPECT_EQ(work.part(rank).comm().health(), ncclSuccess);
    }
    EXPECT_LT(work.errorOf(0), 0.05);
    EXPECT_TRUE(fakeReal().isIdle());
  }
};

TEST_F(MessagesTest, HostsOfOneRankGatherFromEachToEach) {
  for (const size_t n : {size_t{3}, size_t{33}})
    expectMessages(test::makeRanks(static_cast<int>(n)), ncclSum, 2 * n * (n - 1), 0);
}

// Where they do not sum up in their hosts first.
TEST_F(MessagesTest, HostsOfSeveralRanksHaveNcclGather) {
  const test::TestRanks ranks = test::makeRanks(test::Placement{0, 0, 1, 1});
  const auto op = static_cast<ncclRedOp_t>(ncclNumOps);
  const float scalar = 1;
  for (const auto& rank : ranks)
    rank->comm->ops.add(op, &scalar, ncclFloat32, ncclScalarHostImmediate);
  expectMessages(ranks, op, 4 * 3, 4);
}

TEST_F(ExchangeTest, EveryErrorOfNcclIsReported) {
  for (int failAt = 0; failAt < 4; ++failAt) {
    fakeReal() = {};
    fakeReal().failAt = failAt;
    const auto done = exchangeShards(*rank_.comm, shards_, nullptr);
    ASSERT_FALSE(done.ok()) << failAt;
    EXPECT_EQ(done.error().status, Status::systemError);
    EXPECT_EQ(fakeReal().calls.size(), static_cast<size_t>(failAt) + 1) << "and ends it";
  }
  fakeReal() = {};
  fakeReal().failAt = 0;
  const auto done = gatherShards(*rank_.comm, shards_, nullptr);
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message.find("gather"), std::string::npos);
}

TEST_F(ExchangeTest, AnAbortedCommunicatorIsLeftAlone) {
  rank_.comm->abandon();
  EXPECT_FALSE(exchangeShards(*rank_.comm, shards_, nullptr).ok());
  EXPECT_FALSE(gatherShards(*rank_.comm, shards_, nullptr).ok());
  EXPECT_TRUE(fakeReal().calls.empty());
}

}  // namespace
}  // namespace cinch
