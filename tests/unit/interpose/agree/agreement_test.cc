// Ranks as threads, against a real server over loopback.
#include "interpose/agree/agreement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <random>

#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

using AgreementTest = AgreementFixture;

class RanksAgree : public AgreementFixture, public ::testing::WithParamInterface<int> {};

TEST_P(RanksAgree, AndAreToldTheHosts) {
  int n = GetParam();
  UniqueId id = newId();
  Ranks ranks = greetAll(id, n);
  Verdict verdict = verdictOfAll(ranks);
  EXPECT_TRUE(verdict.compress) << verdict.reason;
  ASSERT_EQ(verdict.hostIds.size(), static_cast<size_t>(n));
  EXPECT_EQ(verdict.hostIds.back(), 999u + static_cast<unsigned>(n));
}

INSTANTIATE_TEST_SUITE_P(Sizes, RanksAgree, ::testing::Range(1, 9));

// One thread for all ranks, as in a process with several devices: no call may wait for a later one.
TEST_F(AgreementTest, OneThreadCanSpeakForAllRanksInTurn) {
  UniqueId id = newId();
  for (const auto& rank : greetAll(id, 4)) {
    auto verdict = rank->awaitVerdict(kTestSeconds);
    ASSERT_TRUE(verdict.ok());
    EXPECT_TRUE(verdict.value().compress);
  }
}

TEST_F(AgreementTest, EveryKindOfDifferenceIsNamed) {
  struct Case {
    void (*change)(Hello&);
    std::string reason;
  };
  const std::string own = std::to_string(kAgreementVersion);
  const std::string other = std::to_string(kAgreementVersion + 1);
  const Case cases[] = {
      {[](Hello& hello) {
         hello.settingsHash++;
         hello.settings = "CINCH_MODE=on CINCH_CODEC=q4";
       },
       "rank 2 on host host-2 has other settings: CINCH_CODEC=q4 there, q8 on rank 0"},
      {[](Hello& hello) { hello.version++; }, "Cinch versions differ: rank 2 on host host-2 has " +
                                                  other + ", rank 0 on host host-0 has " + own},
      {[](Hello& hello) { hello.refusal = "non-blocking communicator"; },
       "rank 2 on host host-2 cannot take part: non-blocking communicator"},
      {[](Hello& hello) { hello.nRanks = 4; },
       "rank 2 on host host-2 says that there are 4 ranks, rank 0 on host host-0 says 3"},
  };
  for (const Case& difference : cases) {
    std::vector<Hello> hellos = {makeHello(0, 3), makeHello(1, 3), makeHello(2, 3)};
    difference.change(hellos[2]);
    Verdict verdict = verdictOfAll(greetAll(newId(), hellos));
    EXPECT_FALSE(verdict.compress);
    EXPECT_EQ(verdict.reason, difference.reason);
  }
}

TEST_F(AgreementTest, AMissingRankIsNamedOnceAnyInitHasReturned) {
  UniqueId id = newId();
  Ranks ranks = greetAll(id, {makeHello(0, 3), makeHello(2, 3)});
  // Rank 2 does not report in time: its init returns late.
  auto first = ranks[0]->awaitVerdict(kTestSeconds);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first.value().reason.find("rank 1 (on "), 0u) << first.value().reason;
  EXPECT_NE(first.value().reason.find("runs without Cinch"), std::string::npos);
  auto second = ranks[1]->awaitVerdict(kTestSeconds);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second.value().reason, first.value().reason);
}

TEST_F(AgreementTest, ARankThatGreetsTwiceIsTurnedAwayWithTheReason) {
  UniqueId id = newId();
  auto rank = greet(id, makeHello(0, 2));
  auto twin = Agreement::greet(id.data(), makeHello(0, 2), kTestSeconds);
  ASSERT_FALSE(twin.ok());
  EXPECT_NE(twin.error().message.find("rank 0 on host host-0 has greeted twice"),
            std::string::npos);
}

TEST_F(AgreementTest, GreetSaysWhatIsWrongWithAnId) {
  UniqueId plain = {};
  auto unstamped = Agreement::greet(plain.data(), makeHello(0, 2), kTestSeconds);
  ASSERT_FALSE(unstamped.ok());
  EXPECT_EQ(unstamped.error().message, "the unique id was made without Cinch");
  UniqueId id = newId();
  EXPECT_FALSE(Agreement::greet(id.data(), makeHello(2, 2), kTestSeconds).ok());
  EXPECT_FALSE(Agreement::greet(id.data(), makeHello(-1, 2), kTestSeconds).ok());
}

TEST_F(AgreementTest, GreetingADeadServerFailsWithTheRemedy) {
  UniqueId id = newId();
  server_.reset();
  auto greeted = Agreement::greet(id.data(), makeHello(0, 2), kTestSeconds);
  ASSERT_FALSE(greeted.ok());
  EXPECT_NE(greeted.error().message.find(readStamp(id.data())->server.text()), std::string::npos);
  EXPECT_NE(greeted.error().message.find("Connection refused"), std::string::npos);
  EXPECT_NE(greeted.error().message.find("NCCL_SOCKET_IFNAME"), std::string::npos);
}

TEST_F(AgreementTest, GreetingAServerThatNeverAnswersEnds) {
  auto listener = listenOn(loopback());
  ASSERT_TRUE(listener.ok());
  UniqueId id = {};
  writeStamp({localEndpoint(listener.value()), 5}, id.data());
  auto greeted = Agreement::greet(id.data(), makeHello(0, 2), 1);
  ASSERT_FALSE(greeted.ok());
  EXPECT_NE(greeted.error().message.find("no answer in time"), std::string::npos);
}

TEST_F(AgreementTest, NoVerdictWithoutAReportAndThenThisRankHasLeft) {
  UniqueId id = newId();
  auto waiting = greet(id, makeHello(0, 2));
  server_.reset();
  auto verdict = waiting->awaitVerdict(kTestSeconds);
  ASSERT_FALSE(verdict.ok());
  EXPECT_NE(verdict.error().message.find("agreement server at "), std::string::npos);
  EXPECT_FALSE(waiting->castVote(1, true).ok());
  EXPECT_FALSE(awaitDecision(*waiting, 1).ok());
}

TEST_F(AgreementTest, AVerdictThatDoesNotComeIsAnErrorInTime) {
  limits_.reportTime = std::chrono::hours(1);
  startServer();
  UniqueId id = newId();
  Ranks ranks = greetAll(id, {makeHello(0, 3), makeHello(1, 3)});
  auto verdict = ranks[0]->awaitVerdict(1);
  ASSERT_FALSE(verdict.ok());
  EXPECT_NE(verdict.error().message.find("no verdict in time"), std::string::npos);
  // With its report, or its leaving, the server waits for rank 1's report only.
  auto other = ranks[1]->awaitVerdict(kTestSeconds);
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_FALSE(other.value().compress);
  EXPECT_EQ(other.value().reason.find("rank 2 "), 0u) << other.value().reason;
}

TEST_F(AgreementTest, VotesAreTheAndOfAllRanks) {
  Ranks ranks = greetAll(newId(), 3);
  ASSERT_TRUE(verdictOfAll(ranks).compress);
  for (uint64_t topic = 0; topic < 8; ++topic) {
    for (size_t rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(ranks[rank]->castVote(topic, (topic >> rank) & 1).ok());
    }
    for (const auto& rank : ranks) EXPECT_EQ(allSaidYes(*rank, topic), topic == 7);
  }
}

TEST_F(AgreementTest, WhatRankZeroSendsWithItsVoteGoesWithTheOutcome) {
  Ranks ranks = greetAll(newId(), 2);
  ASSERT_TRUE(verdictOfAll(ranks).compress);
  ASSERT_TRUE(ranks[0]->castVote(1, true, std::vector<uint8_t>{4, 2}).ok());
  ASSERT_TRUE(ranks[1]->castVote(1, false, std::vector<uint8_t>{7}).ok());
  for (const auto& rank : ranks) {
    const auto outcome = outcomeOf(awaitDecision(*rank, 1).value().bytes);
    ASSERT_TRUE(outcome.has_value());
    EXPECT_FALSE(outcome->allYes);
    EXPECT_EQ(outcome->bytes, (std::vector<uint8_t>{4, 2}));
  }
  EXPECT_FALSE(outcomeOf({}).has_value());
  EXPECT_FALSE(outcomeOf(std::vector<uint8_t>{2}).has_value());
}

TEST_F(AgreementTest, WhatRankZeroProposesReachesAll) {
  Ranks ranks = greetAll(newId(), 3);
  ASSERT_TRUE(verdictOfAll(ranks).compress);
  const std::vector<uint8_t> large(kMaxDecided, 42);
  ASSERT_TRUE(ranks[0]->propose(5, large).ok());
  ASSERT_TRUE(ranks[0]->propose(4, {}).ok());
  EXPECT_FALSE(ranks[0]->propose(3, std::vector<uint8_t>(kMaxDecided + 1)).ok());
  for (const auto& rank : ranks) {
    EXPECT_TRUE(awaitDecision(*rank, 4).value().bytes.empty());
    EXPECT_EQ(awaitDecision(*rank, 5).value().bytes, large);
  }
}

TEST_F(AgreementTest, FiguresArePooled) {
  Ranks ranks = greetAll(newId(), 3);
  ASSERT_TRUE(verdictOfAll(ranks).compress);
  for (uint64_t rank = 0; rank < 3; ++rank) {
    const std::vector<uint64_t> own = {10 + rank, 20 - rank, kNoFigure};
    ASSERT_TRUE(ranks[rank]->pool(7, own).ok());
    EXPECT_FALSE(ranks[rank]->pool(8, std::vector<uint64_t>(kMaxFigures + 1)).ok());
  }
  for (const auto& rank : ranks) {
    const auto least = awaitDecision(*rank, 7);
    ASSERT_TRUE(least.ok());
    EXPECT_EQ(leastOf(least.value().bytes), (std::vector<uint64_t>{10, 18, kNoFigure}));
  }
}

TEST_F(AgreementTest, NobodyWaitsForTheFiguresOfARankThatLeaves) {
  Ranks ranks = greetAll(newId(), 2);
  ASSERT_TRUE(verdictOfAll(ranks).compress);
  ASSERT_TRUE(ranks[0]->pool(1, std::vector<uint64_t>{1}).ok());
  ranks[1]->close();
  EXPECT_FALSE(awaitDecision(*ranks[0], 1).ok());
}

TEST_F(AgreementTest, WhatIsDecidedStaysSoAfterRankZeroHasLeft) {
  Ranks ranks = greetAll(newId(), 2);
  ASSERT_TRUE(verdictOfAll(ranks).compress);
  ASSERT_TRUE(ranks[0]->propose(5, std::vector<uint8_t>{1}).ok());
  ASSERT_TRUE(awaitDecision(*ranks[0], 5).ok());
  ranks[0]->close();
  EXPECT_TRUE(awaitDecision(*ranks[1], 5).ok());
  auto never = awaitDecision(*ranks[1], 6);
  ASSERT_FALSE(never.ok());
  EXPECT_NE(never.error().message.find("one has left"), std::string::npos);
}

TEST_F(AgreementTest, RanksMayRunFarAheadWithTheirVotes) {
  Ranks ranks = greetAll(newId(), 2);
  ASSERT_TRUE(verdictOfAll(ranks).compress);
  constexpr uint64_t kTopics = 4000;
  for (uint64_t topic = 0; topic < kTopics; ++topic) {
    ASSERT_TRUE(ranks[0]->castVote(topic, true).ok());
  }
  for (uint64_t topic = kTopics; topic-- > 0;) {
    ASSERT_TRUE(ranks[1]->castVote(topic, topic % 2 == 0).ok());
  }
  for (uint64_t topic = 0; topic < kTopics; ++topic) {
    for (const auto& rank : ranks) ASSERT_EQ(allSaidYes(*rank, topic), topic % 2 == 0);
  }
}

TEST_F(AgreementTest, TooManyOpenVotesEndTheOneWhoRanAhead) {
  Ranks ranks = greetAll(newId(), 2);
  ASSERT_TRUE(verdictOfAll(ranks).compress);
  for (uint64_t topic = 0; topic <= kMaxOpenTopics; ++topic) {
    if (!ranks[0]->castVote(topic, true).ok()) break;
  }
  EXPECT_FALSE(awaitDecision(*ranks[0], 0).ok());
  ASSERT_TRUE(ranks[1]->castVote(0, true).ok());
  EXPECT_FALSE(allSaidYes(*ranks[1], 0)) << "rank 0 has left, a no";
}

// Each rank votes in an order of its own and awaits in another, from several threads at once.
TEST_F(AgreementTest, VotesInRandomOrdersFromManyThreadsComeOutRight) {
  constexpr uint64_t kTopics = 200;
  constexpr int kRanks = 4;
  constexpr int kThreads = 3;
  Ranks ranks = greetAll(newId(), kRanks);
  ASSERT_TRUE(verdictOfAll(ranks).compress);
  auto says = [](size_t rank, uint64_t topic) { return (topic * 7 + rank * 3) % 11 != 0; };
  std::atomic<int> checked{0};
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    for (int part = 0; part < kThreads; ++part) {
      threads.emplace_back([&, rank, part] {
        std::mt19937 random(static_cast<unsigned>(rank * 10 + static_cast<size_t>(part)));
        std::vector<uint64_t> topics;
        for (uint64_t topic = static_cast<uint64_t>(part); topic < kTopics; topic += kThreads) {
          topics.push_back(topic);
        }
        std::shuffle(topics.begin(), topics.end(), random);
        for (uint64_t topic : topics)
          ASSERT_TRUE(ranks[rank]->castVote(topic, says(rank, topic)).ok());
        std::shuffle(topics.begin(), topics.end(), random);
        for (uint64_t topic : topics) {
          bool expected = true;
          for (size_t other = 0; other < kRanks; ++other) expected = expected && says(other, topic);
          ASSERT_EQ(allSaidYes(*ranks[rank], topic), expected) << topic;
          checked++;
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(checked, kRanks * static_cast<int>(kTopics));
}

TEST_F(AgreementTest, ALeaverCountsAsANoForWhatIsOpenAndWhatComes) {
  Ranks ranks = greetAll(newId(), 3);
  ASSERT_TRUE(verdictOfAll(ranks).compress);
  for (const auto& rank : ranks) ASSERT_TRUE(rank->castVote(1, true).ok());
  EXPECT_TRUE(allSaidYes(*ranks[0], 1));
  ASSERT_TRUE(ranks[0]->castVote(2, true).ok());
  ASSERT_TRUE(ranks[1]->castVote(2, true).ok());
  ranks[2].reset();
  EXPECT_FALSE(allSaidYes(*ranks[0], 2));
  EXPECT_FALSE(allSaidYes(*ranks[1], 2));
  EXPECT_TRUE(allSaidYes(*ranks[1], 1)) << "decided before";
  for (size_t rank : {0, 1}) ASSERT_TRUE(ranks[rank]->castVote(3, true).ok());
  for (size_t rank : {0, 1}) EXPECT_FALSE(allSaidYes(*ranks[rank], 3));
}

TEST_F(AgreementTest, CloseWakesEveryWaiter) {
  Ranks ranks = greetAll(newId(), 2);
  ASSERT_TRUE(verdictOfAll(ranks).compress);
  std::vector<std::thread> waiters;
  std::atomic<int> errors{0};
  for (uint64_t topic = 0; topic < 4; ++topic) {
    ASSERT_TRUE(ranks[0]->castVote(topic, true).ok());
    waiters.emplace_back([&, topic] {
      auto outcome = awaitDecision(*ranks[0], topic);
      if (!outcome.ok() && outcome.error().message.find("ended") != std::string::npos) errors++;
    });
  }
  ranks[0]->close();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(errors, 4);
  ranks[0]->close();
  EXPECT_FALSE(ranks[0]->castVote(9, true).ok());
}

TEST_F(AgreementTest, TheServersDeathEndsEveryWaitAndIsNamed) {
  UniqueId id = newId();
  std::string where = readStamp(id.data())->server.text();
  Ranks ranks = greetAll(id, 2);
  ASSERT_TRUE(verdictOfAll(ranks).compress);
  ASSERT_TRUE(ranks[0]->castVote(1, true).ok());
  std::thread waiter([&] { EXPECT_FALSE(awaitDecision(*ranks[0], 1).ok()); });
  server_.reset();
  waiter.join();
  const auto late = ranks[0]->castVote(2, true);
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.error().message.find(where), std::string::npos) << late.error().message;
}

TEST_F(AgreementTest, ManyIdsAtOnce) {
  constexpr int kIds = 20;
  constexpr int kRanks = 4;
  std::vector<UniqueId> ids;
  for (int i = 0; i < kIds; ++i) ids.push_back(newId());
  std::atomic<int> agreed{0};
  std::barrier<> realInit(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      Ranks mine;
      for (const UniqueId& id : ids) mine.push_back(greet(id, makeHello(rank, kRanks)));
      realInit.arrive_and_wait();
      for (size_t i = 0; i < mine.size(); ++i) {
        auto verdict = mine[i]->awaitVerdict(kTestSeconds);
        ASSERT_TRUE(verdict.ok() && verdict.value().compress);
        ASSERT_TRUE(mine[i]->castVote(i, i % 3 != 0 || rank != 2).ok());
      }
      for (size_t i = 0; i < mine.size(); ++i) {
        ASSERT_EQ(allSaidYes(*mine[i], i), i % 3 != 0);
        agreed++;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(agreed, kIds * kRanks);
}

TEST_F(AgreementTest, AnIdMayBeUsedAgainOnlyAfterAllHaveLeftAndIsThenUnknown) {
  UniqueId id = newId();
  Ranks ranks = greetAll(id, 2);
  ASSERT_TRUE(verdictOfAll(ranks).compress);
  ranks.clear();
  auto again = Agreement::greet(id.data(), makeHello(0, 2), kTestSeconds);
  ASSERT_FALSE(again.ok());
}

}  // namespace
}  // namespace cinch
