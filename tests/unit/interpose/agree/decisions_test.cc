// What ranks decide together, over a server on loopback: threads that make calls at their own pace,
// take some back, decide and leave at random.
#include "interpose/agree/decisions.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>

#include "interpose/agree/decision_rounds.h"
#include "interpose/agree/group_marks.h"
#include "interpose/agree/open_votes.h"
#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

class DecisionsTest : public AgreementFixture {
 protected:
  Ranks agreed(int nRanks) {
    Ranks ranks = greetAll(newId(), nRanks);
    EXPECT_TRUE(verdictOfAll(ranks).compress);
    return ranks;
  }
  // Claims until `topic` is in force: with which call.
  static uint64_t claimUntil(Agreement& rank, uint64_t topic) {
    for (int call = 0; call < 100000; ++call) {
      const auto claimed = rank.decisions().claim();
      if (!claimed.ok()) break;
      for (const Decision& decision : claimed.value().decisions)
        if (decision.topic == topic) return claimed.value().call;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    ADD_FAILURE() << "never in force";
    return kNoOrdinal;
  }
};

TEST_F(DecisionsTest, AreInForceFromTheSameCallOnAllRanks) {
  Ranks ranks = agreed(3);
  ASSERT_TRUE(ranks[0]->propose(7, Bytes{1, 2}).ok());
  for (size_t rank : {2, 1}) ASSERT_TRUE(ranks[rank]->castVote(8, rank == 1).ok());
  ASSERT_TRUE(ranks[0]->castVote(8, true, Bytes{9}).ok());
  std::vector<uint64_t> proposed(3), voted(3);
  std::vector<std::thread> programs;
  for (size_t rank = 0; rank < 3; ++rank) {
    programs.emplace_back([&, rank] { proposed[rank] = claimUntil(*ranks[rank], 7); });
  }
  for (std::thread& program : programs) program.join();
  EXPECT_TRUE(proposed[0] == proposed[1] && proposed[1] == proposed[2]);
}

// A program is as far ahead of the others as it likes, and waits for none of theirs.
TEST_F(DecisionsTest, NoProgramWaitsForAnother) {
  Ranks ranks = agreed(2);
  for (uint64_t topic = 0; topic < 20; ++topic) {
    for (const auto& rank : ranks) ASSERT_TRUE(rank->castVote(topic, true).ok());
    for (int call = 0; call < 300; ++call) ASSERT_TRUE(ranks[topic % 2]->decisions().claim().ok());
  }
  const uint64_t most = std::max(ranks[0]->decisions().claimed(), ranks[1]->decisions().claimed());
  EXPECT_EQ(most, 3000u);
}

TEST_F(DecisionsTest, BeforeTheNextCallOrItIsMadeAsBefore) {
  Ranks ranks = agreed(2);
  for (int call = 0; call < 3; ++call) ASSERT_TRUE(ranks[0]->decisions().claim().ok());
  EXPECT_TRUE(ranks[0]->decisions().isDecidedBeforeNext(7).value());
  EXPECT_EQ(claimUntil(*ranks[0], 7), 3u);
  EXPECT_EQ(claimUntil(*ranks[1], 7), 3u);
  // Rank 0 is at 4, and rank 1 has made that call already.
  ASSERT_TRUE(ranks[1]->decisions().claim().ok());
  EXPECT_FALSE(ranks[0]->decisions().isDecidedBeforeNext(8).value());
  const uint64_t later = claimUntil(*ranks[0], 8);
  EXPECT_GT(later, 4u);
  EXPECT_EQ(claimUntil(*ranks[1], 8), later) << "by itself";
}

TEST_F(DecisionsTest, ARankThatLeavesEndsThemAndWhatIsInForceStays) {
  Ranks ranks = agreed(2);
  ASSERT_TRUE(ranks[0]->propose(7, {}).ok());
  const uint64_t call = claimUntil(*ranks[0], 7);
  ranks[1].reset();
  EXPECT_FALSE(ranks[0]->decisions().isDecidedBeforeNext(8).value());
  EXPECT_TRUE(ranks[0]->decisions().isOver());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(ranks[0]->decisions().claim().ok());
  EXPECT_EQ(ranks[0]->decisions().claimed(), call + 101);
}

TEST_F(DecisionsTest, TheServersEndHurtsOnlyWhoHasPromised) {
  Ranks ranks = agreed(2);
  server_.reset();
  for (const auto& rank : ranks)
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(rank->decisions().claim().ok());
  EXPECT_FALSE(ranks[0]->decisions().isDecidedBeforeNext(8).value());
}

TEST_F(DecisionsTest, WaitsForWhatIsReplayed) {
  Ranks ranks = agreed(2);
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(ranks[0]->propose(7, Bytes{3}).ok());
  });
  const auto awaited = ranks[1]->decisions().await(7, deadlineIn(std::chrono::seconds(20)));
  late.join();
  ASSERT_TRUE(awaited.ok());
  EXPECT_EQ(awaited.value()->bytes, Bytes{3});
  EXPECT_FALSE(ranks[1]->decisions().await(8, deadlineIn(std::chrono::milliseconds(1))).ok());
}

TEST_F(DecisionsTest, NothingIsPromisedWhileAGroupIsOpenForAWhile) {
  Ranks ranks = agreed(2);
  enterGroup();
  ASSERT_TRUE(ranks[0]->propose(7, {}).ok());
  std::this_thread::sleep_for(kLongestRest / 4);
  EXPECT_TRUE(ranks[0]->decisions().claim().value().decisions.empty());
  // The thread that must know waits with its group open.
  EXPECT_TRUE(ranks[0]->decisions().isDecidedBeforeNext(8).value());
  leaveGroup();
  EXPECT_EQ(claimUntil(*ranks[0], 7), claimUntil(*ranks[1], 7));
}

TEST_F(DecisionsTest, AGroupThatStaysOpenHoldsUpNobodyForLong) {
  Ranks ranks = agreed(2);
  std::atomic<bool> isOpen{false}, isOver{false};
  std::thread holder([&] {
    enterGroup();
    isOpen = true;
    while (!isOver) std::this_thread::yield();
    leaveGroup();
  });
  while (!isOpen) std::this_thread::yield();
  EXPECT_TRUE(ranks[0]->decisions().isDecidedBeforeNext(8).value());
  EXPECT_EQ(claimUntil(*ranks[0], 8), claimUntil(*ranks[1], 8));
  isOver = true;
  holder.join();
}

// It may be the one that aborts what the others wait for.
TEST_F(DecisionsTest, AGroupIsOpenedBehindAFrozenRank) {
  ASSERT_TRUE(addMark(true));
  const auto begun = Clock::now();
  enterGroup();
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(10));
  leaveGroup();
  removeMark();
}

TEST_F(DecisionsTest, AGroupIsOpenedWhenNothingIsPromised) {
  Ranks ranks = agreed(4);
  std::atomic<bool> isOver{false};
  std::thread decider([&] {
    for (uint64_t topic = 0; !isOver; ++topic) ASSERT_TRUE(ranks[0]->propose(topic, {}).ok());
  });
  for (int group = 0; group < 2000; ++group) {
    enterGroup();
    const uint64_t before = Decisions::waits().count;
    for (int call = 0; call < 20; ++call)
      for (const auto& rank : ranks) ASSERT_TRUE(rank->decisions().claim().ok());
    EXPECT_EQ(Decisions::waits().count, before) << "with the group open";
    leaveGroup();
  }
  isOver = true;
  decider.join();
}

TEST(Decisions, AServerCannotMakeARankKeepWithoutEnd) {
  Decisions decisions([](const Proposal&, bool) {});
  for (uint64_t topic = 0; topic < kMaxOpenTopics; ++topic)
    ASSERT_TRUE(decisions.receive(Missed{topic}).ok());
  EXPECT_FALSE(decisions.receive(Missed{kMaxOpenTopics}).ok());
  EXPECT_FALSE(decisions.await(5, kNoDeadline).value().has_value());
}

TEST_F(DecisionsTest, OnlyRankZeroHasSomethingToSay) {
  Ranks ranks = agreed(2);
  EXPECT_FALSE(ranks[0]->propose(1, Bytes(kMaxDecided + 1)).ok());
  EXPECT_FALSE(ranks[0]->castVote(1, true, Bytes(kMaxDecided + 1)).ok());
  ASSERT_TRUE(ranks[1]->propose(1, Bytes{1}).ok()) << "it has been sent";
  while (!ranks[1]->decisions().isOver()) std::this_thread::yield();
  EXPECT_FALSE(ranks[1]->castVote(2, true).ok()) << "and ended that rank's part";
}

// One rank's program: what was in force with each call that it made.
using Log = std::map<uint64_t, std::vector<uint64_t>>;

void live(Agreement& rank, unsigned seed, uint64_t nCalls, Log& log) {
  std::mt19937 random(seed);
  Decisions& decisions = rank.decisions();
  std::vector<uint64_t> inForce;
  while (decisions.claimed() < nCalls) {
    if (random() % 100 == 0) decisions.decideSoon(random() % 64);
    const uint64_t wanted = 1000 + random() % 64;
    if (random() % 100 == 0) {
      const uint64_t next = decisions.claimed();
      const auto isIn = decisions.isDecidedBeforeNext(wanted);
      ASSERT_TRUE(isIn.ok()) << isIn.error().message;
      if (isIn.value()) log[next].push_back(wanted);
    }
    const auto claimed = decisions.claim();
    ASSERT_TRUE(claimed.ok()) << claimed.error().message;
    std::vector<uint64_t>& now = log[claimed.value().call];
    std::vector<uint64_t> topics;
    for (const Decision& decision : claimed.value().decisions) topics.push_back(decision.topic);
    for (const uint64_t topic : now) EXPECT_EQ(std::count(topics.begin(), topics.end(), topic), 1);
    now = topics;
    if (topics.empty() && random() % 50 == 0) decisions.takeBack();
    if (random() % 20 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
  }
}

TEST_F(DecisionsTest, RanksAtTheirOwnPaceNeverPart) {
  for (unsigned run = 0; run < 10; ++run) {
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    constexpr int kRanks = 4;
    Ranks ranks = agreed(kRanks);
    std::vector<Log> logs(kRanks);
    std::vector<std::thread> programs;
    for (size_t rank = 0; rank < kRanks; ++rank)
      programs.emplace_back(
          [&, rank] { live(*ranks[rank], seed + static_cast<unsigned>(rank), 2000, logs[rank]); });
    for (std::thread& program : programs) program.join();
    for (const Log& log : logs) ASSERT_EQ(log, logs[0]);
  }
}

TEST_F(DecisionsTest, AnAbortEndsEveryWait) {
  Ranks ranks = agreed(2);
  // The other rank's control thread cannot answer: a rank in doubt.
  enterGroup();
  std::thread waiting([&] {
    EXPECT_FALSE(ranks[0]->decisions().await(7, deadlineIn(std::chrono::seconds(60))).ok());
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ranks[0]->close();
  waiting.join();
  leaveGroup();
}

}  // namespace
}  // namespace cinch
