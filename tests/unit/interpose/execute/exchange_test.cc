#include "interpose/execute/exchange.h"

#include <gtest/gtest.h>

#include "tests/unit/interpose/support/ranks.h"

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
