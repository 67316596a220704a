// Which ranks a child holds, and that one meeting follows another.
#include "emulator/nccl/child.h"

#include <gtest/gtest.h>

namespace cinch::emulator {
namespace {

using Ranks = std::vector<int>;

TEST(Members, AreOrderedByKeyThenByRank) {
  const std::vector<Choice> choices = {{0, 5}, {1, 0}, {0, -1}, {0, 5}, {-1, 0}};
  EXPECT_EQ(membersOf(choices, 0), (Ranks{2, 0, 3}));
  EXPECT_EQ(membersOf(choices, 1), Ranks{1});
  EXPECT_EQ(membersOf(choices, 2), Ranks{});
}

TEST(Members, AreThoseThatAreNotExcluded) {
  EXPECT_EQ(remainingRanks(4, {2, 0}), (Ranks{1, 3}));
  EXPECT_EQ(remainingRanks(3, {}), (Ranks{0, 1, 2}));
  EXPECT_EQ(remainingRanks(1, {0}), Ranks{});
}

Result<Shares> meet(const Maternity& maternity, uint64_t nonce, const Cancellation& cancellation) {
  UniqueId id;
  id.root = maternity.address();
  id.nonce = nonce;
  Result<Bootstrap> bootstrap = Bootstrap::join(id, 0, 1, cancellation);
  if (!bootstrap) return bootstrap.error();
  Result<Shares> last = Shares{};
  for (int round = 0; round < 1 + kBootstrapRounds && last; ++round) {
    last = bootstrap.value().exchange({static_cast<char>('0' + round)});
  }
  return last;
}

TEST(Maternity, HostsOneMeetingAfterAnother) {
  const Cancellation cancellation;
  auto maternity = Maternity::open();
  ASSERT_TRUE(maternity.ok());
  for (uint64_t nonce = 1; nonce < 20; ++nonce) {
    ASSERT_TRUE(maternity.value()->host(nonce).ok());
    const Result<Shares> last = meet(*maternity.value(), nonce, cancellation);
    ASSERT_TRUE(last.ok()) << last.error().message;
    EXPECT_EQ(last.value(), (Shares{{'2'}}));
  }
}

// The ranks of the first meeting never come.
TEST(Maternity, DoesNotWaitForAMeetingThatFailed) {
  const Cancellation cancellation;
  auto maternity = Maternity::open();
  ASSERT_TRUE(maternity.ok());
  ASSERT_TRUE(maternity.value()->host(1).ok());
  ASSERT_TRUE(maternity.value()->host(2).ok());
  EXPECT_TRUE(meet(*maternity.value(), 2, cancellation).ok());
}

}  // namespace
}  // namespace cinch::emulator
