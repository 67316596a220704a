#include "interpose/execute/exchange.h"

#include <gtest/gtest.h>

#include "tests/unit/interpose/support/fake_real.h"

namespace cinch {
namespace {

using test::fakeReal;
using test::fakeRealTable;

class ExchangeTest : public testing::Test {
 protected:
  void SetUp() override { fakeReal() = {}; }

  CommStats stats_{CommLabel{"communicator", 1, 3, "", {}}};
  CommState comm_{fakeRealTable(), nullptr, 1, 3, stats_};
  uint8_t outgoing_[48] = {}, incoming_[48] = {};
  const ShardBuffers shards_{outgoing_, incoming_, 16};
};

TEST_F(ExchangeTest, OneGroupToAndFromEveryPeer) {
  ASSERT_TRUE(exchangeShards(comm_, shards_, nullptr).ok());
  EXPECT_EQ(fakeReal().calls, (std::vector<std::string>{"GroupStart", "Send 0", "Recv 0", "Send 2",
                                                        "Recv 2", "GroupEnd"}));
}

TEST_F(ExchangeTest, AnOpenGroupIsClosedWhateverFails) {
  for (int failAt = 1; failAt < 6; ++failAt) {
    fakeReal() = {};
    fakeReal().failAt = failAt;
    const auto done = exchangeShards(comm_, shards_, nullptr);
    ASSERT_FALSE(done.ok()) << failAt;
    EXPECT_EQ(done.error().status, Status::systemError);
    EXPECT_EQ(fakeReal().calls.back(), "GroupEnd");
  }
}

TEST_F(ExchangeTest, AGroupThatCannotBeOpenedIsNotClosed) {
  fakeReal().failAt = 0;
  EXPECT_FALSE(exchangeShards(comm_, shards_, nullptr).ok());
  EXPECT_EQ(fakeReal().calls, std::vector<std::string>{"GroupStart"});
}

TEST_F(ExchangeTest, GatherReportsNcclsError) {
  fakeReal().failAt = 0;
  const auto done = gatherShards(comm_, shards_, nullptr);
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message.find("gather"), std::string::npos);
}

}  // namespace
}  // namespace cinch
