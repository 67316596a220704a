#include "interpose/agree/agreement_session.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

using std::chrono::milliseconds;

AgreementSession newSession() {
  return AgreementSession(loopback(), milliseconds(1000));
}

AgreementSession sessionOf(int nRanks) {
  AgreementSession session = newSession();
  for (int rank = 0; rank < nRanks; ++rank) {
    auto member = session.join(makeHello(rank, nRanks), loopback());
    EXPECT_TRUE(member.ok() && member.value() == static_cast<size_t>(rank));
  }
  return session;
}

// The verdict among the broadcasts; fails unless there is exactly that.
Verdict verdictOf(AgreementSession& session) {
  std::vector<Message> messages = session.takeBroadcasts();
  EXPECT_EQ(messages.size(), 1u);
  const Verdict* verdict = messages.empty() ? nullptr : std::get_if<Verdict>(&messages[0]);
  EXPECT_NE(verdict, nullptr);
  return verdict == nullptr ? Verdict{} : *verdict;
}

// What is decided where all `nRanks` members promise whatever they are asked for.
std::map<uint64_t, Bytes> decisionsOf(AgreementSession& session, size_t nRanks) {
  std::map<uint64_t, Bytes> decisions;
  for (std::vector<Message> messages; !(messages = session.takeBroadcasts()).empty();) {
    for (const Message& message : messages) {
      if (const Prepare* prepare = std::get_if<Prepare>(&message)) {
        const Prepared yes{prepare->round, Prepared::Answer::accepted, 0, 1};
        for (size_t member = 0; member < nRanks; ++member) {
          EXPECT_TRUE(session.prepared(member, yes).ok());
        }
      }
      const Commit* commit = std::get_if<Commit>(&message);
      if (commit == nullptr) continue;
      for (const Decision& decision : commit->decisions) {
        EXPECT_TRUE(decisions.emplace(decision.topic, decision.bytes).second) << "twice";
      }
    }
  }
  return decisions;
}

std::map<uint64_t, bool> outcomesOf(AgreementSession& session, size_t nRanks) {
  std::map<uint64_t, bool> outcomes;
  for (const auto& [topic, bytes] : decisionsOf(session, nRanks)) {
    const auto outcome = outcomeOf(bytes);
    EXPECT_TRUE(outcome.has_value());
    outcomes[topic] = outcome && outcome->allYes;
  }
  return outcomes;
}

TEST(AgreementSession, DecidesWhenAllHaveSaidHello) {
  for (int n = 1; n <= 8; ++n) {
    AgreementSession session = sessionOf(n);
    EXPECT_TRUE(verdictOf(session).compress);
    EXPECT_EQ(session.deadline(), kNoDeadline);
  }
}

TEST(AgreementSession, DecidesWhatRankZeroProposes) {
  AgreementSession session = sessionOf(3);
  ASSERT_TRUE(verdictOf(session).compress);
  ASSERT_TRUE(session.propose(0, {1, kNoOrdinal, {7, 8}}).ok());
  EXPECT_EQ(decisionsOf(session, 3), (std::map<uint64_t, Bytes>{{1, {7, 8}}}));
}

TEST(AgreementSession, RankZerosBytesGoWithTheOutcome) {
  AgreementSession session = sessionOf(2);
  ASSERT_TRUE(verdictOf(session).compress);
  ASSERT_TRUE(session.vote(1, {1, true, {5}}).ok());
  ASSERT_TRUE(session.vote(0, {1, false, {7, 8}}).ok());
  const Bytes bytes = decisionsOf(session, 2).at(1);
  EXPECT_FALSE(outcomeOf(bytes)->allYes);
  EXPECT_EQ(outcomeOf(bytes)->bytes, Bytes({7, 8}));
}

// At once, without promises: some rank may be asleep.
TEST(AgreementSession, AVoteThatIsTakenBackIsANoAlsoForThoseToCome) {
  AgreementSession session = sessionOf(3);
  ASSERT_TRUE(verdictOf(session).compress);
  ASSERT_TRUE(session.vote(0, {1, true}).ok());
  ASSERT_TRUE(session.vote(2, {1, true}).ok());
  ASSERT_TRUE(session.retract(2, {1}).ok());
  ASSERT_TRUE(session.retract(0, {1}).ok()) << "two may lose patience at the same time";
  const std::vector<Message> told = session.takeBroadcasts();
  ASSERT_EQ(told.size(), 1u) << "once";
  EXPECT_EQ(std::get<Missed>(told[0]).topic, 1u);
  ASSERT_TRUE(session.vote(1, {1, true}).ok());
  ASSERT_TRUE(session.retract(1, {1}).ok()) << "all have voted: it is forgotten";
  EXPECT_TRUE(session.takeBroadcasts().empty());
}

TEST(AgreementSession, AVoteIsTakenBackTooLateWhereAllHaveVoted) {
  AgreementSession session = sessionOf(2);
  ASSERT_TRUE(verdictOf(session).compress);
  for (size_t rank : {0, 1}) ASSERT_TRUE(session.vote(rank, {1, true}).ok());
  ASSERT_TRUE(session.retract(0, {1}).ok());
  EXPECT_EQ(outcomesOf(session, 2), (std::map<uint64_t, bool>{{1, true}}));
  ASSERT_TRUE(session.retract(1, {1}).ok()) << "also when it has been decided";
  EXPECT_TRUE(session.takeBroadcasts().empty());
}

// In the order in which they came, which is not that of their numbers.
TEST(AgreementSession, RanksThatDifferAreNamedByTheirNumbers) {
  AgreementSession session({}, {});
  for (const int rank : {2, 0, 1}) ASSERT_TRUE(session.join(makeHello(rank, 3), loopback()).ok());
  ASSERT_TRUE(verdictOf(session).compress);
  ASSERT_TRUE(session.compare(0, {1, 1, {7, 8}}).ok());
  ASSERT_TRUE(session.compare(1, {1, 1, {7}}).ok());
  EXPECT_EQ(session.deadline(), kNoDeadline);
  ASSERT_TRUE(session.compare(2, {1, 1, {7, 9}}).ok());
  ASSERT_LE(session.deadline(), Clock::now());
  session.expire();
  const std::vector<Message> told = session.takeBroadcasts();
  ASSERT_EQ(told.size(), 1u);
  const auto& difference = std::get<Difference>(told[0]);
  EXPECT_TRUE(difference.rank == 1 && difference.other == 2);
  EXPECT_TRUE(difference.alike == 1 && difference.differs == 2);
}

TEST(AgreementSession, OnlyAVoteThatWasGivenIsTakenBack) {
  AgreementSession session = sessionOf(2);
  ASSERT_TRUE(verdictOf(session).compress);
  ASSERT_TRUE(session.vote(0, {1, true}).ok());
  EXPECT_FALSE(session.retract(1, {1}).ok());
}

TEST(AgreementSession, TellsOnceThatNothingIsDecidedAnyMore) {
  AgreementSession session = sessionOf(3);
  ASSERT_TRUE(verdictOf(session).compress);
  session.leave(1, false);
  std::vector<Message> told = session.takeBroadcasts();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(std::get<Withdraw>(told[0]).openBelow, kNoOrdinal);
  for (uint64_t topic = 0; topic < 2 * kMaxOpenTopics; ++topic) {
    ASSERT_TRUE(session.vote(0, {topic, true}).ok()) << "nobody is dropped for what is ignored";
    ASSERT_TRUE(session.pool(0, {topic, {1}}).ok());
  }
  EXPECT_TRUE(session.takeBroadcasts().empty());
}

std::map<uint64_t, std::vector<uint64_t>> poolsOf(AgreementSession& session, size_t nRanks) {
  std::map<uint64_t, std::vector<uint64_t>> pools;
  for (const auto& [topic, bytes] : decisionsOf(session, nRanks)) pools[topic] = leastOf(bytes);
  return pools;
}

TEST(AgreementSession, APoolHoldsTheLeastOfEachFigure) {
  AgreementSession session = sessionOf(3);
  ASSERT_TRUE(verdictOf(session).compress);
  ASSERT_TRUE(session.pool(0, {5, {3, kNoFigure, 9}}).ok());
  ASSERT_TRUE(session.pool(2, {5, {4, kNoFigure, 1}}).ok());
  ASSERT_TRUE(session.pool(2, {6, {}}).ok()) << "ranks may be ahead";
  EXPECT_TRUE(session.takeBroadcasts().empty());
  EXPECT_NE(session.deadline(), kNoDeadline);
  ASSERT_TRUE(session.pool(1, {5, {2, kNoFigure, kNoFigure}}).ok());
  const auto pools = poolsOf(session, 3);
  ASSERT_EQ(pools.size(), 1u);
  EXPECT_EQ(pools.at(5), (std::vector<uint64_t>{2, kNoFigure, 1}));
}

TEST(AgreementSession, FiguresOutOfTurnAreRefused) {
  AgreementSession early = newSession();
  ASSERT_TRUE(early.join(makeHello(0, 2), loopback()).ok());
  EXPECT_FALSE(early.pool(0, {1, {7}}).ok()) << "before the verdict";

  AgreementSession session = sessionOf(3);
  ASSERT_TRUE(verdictOf(session).compress);
  ASSERT_TRUE(session.pool(0, {1, {7}}).ok());
  EXPECT_FALSE(session.pool(0, {1, {7}}).ok()) << "twice";
  EXPECT_FALSE(session.pool(1, {1, {7, 8}}).ok()) << "as many as the others have";
  for (uint64_t topic = 2; topic <= kMaxOpenPools; ++topic)
    ASSERT_TRUE(session.pool(0, {topic, {}}).ok());
  EXPECT_FALSE(session.pool(0, {0, {}}).ok()) << "too many at once";
}

TEST(AgreementSession, FiguresThatWaitTooLongAreDecidedToBeNone) {
  FigurePools pools;
  std::vector<Decision> decided;
  ASSERT_TRUE(pools.add(0, {1, {7}}, {2, 2}, decided).ok());
  EXPECT_LE(pools.due(), deadlineIn(kPoolTime));
  pools.expire(decided);
  EXPECT_TRUE(decided.empty()) << "it is early";
  pools.leave(1, {2, 1}, decided);
  EXPECT_EQ(decided, std::vector<Decision>{{1}});
}

TEST(AgreementSession, SaysNothingWhileRanksMayStillCome) {
  AgreementSession session = newSession();
  for (int rank : {2, 0}) ASSERT_TRUE(session.join(makeHello(rank, 3), loopback()).ok());
  EXPECT_TRUE(session.takeBroadcasts().empty());
  EXPECT_EQ(session.deadline(), kNoDeadline);
  ASSERT_TRUE(session.join(makeHello(1, 3), loopback()).ok());
  EXPECT_TRUE(verdictOf(session).compress);
}

TEST(AgreementSession, TheFirstReportStartsTheClockAndTheLastDecides) {
  AgreementSession session = newSession();
  for (int rank : {0, 1}) ASSERT_TRUE(session.join(makeHello(rank, 3), loopback()).ok());
  ASSERT_TRUE(session.report(0, {}).ok());
  EXPECT_TRUE(session.takeBroadcasts().empty());
  EXPECT_LE(session.deadline(), deadlineIn(milliseconds(1000)));
  ASSERT_TRUE(session.report(1, {}).ok());
  Verdict verdict = verdictOf(session);
  EXPECT_FALSE(verdict.compress);
  EXPECT_EQ(verdict.reason.find("rank 2 "), 0u) << verdict.reason;
  EXPECT_EQ(session.deadline(), kNoDeadline);
}

TEST(AgreementSession, AnExpiredClockDecides) {
  AgreementSession session = newSession();
  for (int rank : {0, 1}) ASSERT_TRUE(session.join(makeHello(rank, 3), loopback()).ok());
  ASSERT_TRUE(session.report(0, {}).ok());
  session.expire();
  EXPECT_FALSE(verdictOf(session).compress);
  EXPECT_TRUE(session.report(1, {}).ok()) << "a late report is harmless";
  EXPECT_TRUE(session.takeBroadcasts().empty());
  EXPECT_FALSE(session.join(makeHello(2, 3), loopback()).ok()) << "it would not be told the same";
}

TEST(AgreementSession, ALeaverIsNotWaitedForAndIsNamed) {
  AgreementSession session = newSession();
  for (int rank : {0, 1, 2}) ASSERT_TRUE(session.join(makeHello(rank, 4), loopback()).ok());
  ASSERT_TRUE(session.report(0, {}).ok());
  ASSERT_TRUE(session.report(1, {}).ok());
  session.leave(2, false);
  Verdict verdict = verdictOf(session);
  EXPECT_NE(verdict.reason.find("rank 3 "), std::string::npos);
  EXPECT_NE(verdict.reason.find("rank 2 on host host-2 has left"), std::string::npos);
}

TEST(AgreementSession, ARankThatLeftBeforeTheLastHelloForbidsCompression) {
  AgreementSession session = newSession();
  ASSERT_TRUE(session.join(makeHello(0, 3), loopback()).ok());
  ASSERT_TRUE(session.join(makeHello(1, 3), loopback()).ok());
  session.leave(1, false);
  EXPECT_FALSE(session.over());
  ASSERT_TRUE(session.join(makeHello(2, 3), loopback()).ok());
  EXPECT_EQ(verdictOf(session).reason,
            "rank 1 on host host-1 has left before the ranks had agreed");
}

TEST(AgreementSession, TurnsAwayWhoMakesNoSense) {
  AgreementSession session = newSession();
  EXPECT_FALSE(session.join(makeHello(-1, 2), loopback()).ok());
  EXPECT_FALSE(session.join(makeHello(2, 2), loopback()).ok());
  EXPECT_FALSE(session.join(makeHello(0, 0), loopback()).ok());
  EXPECT_FALSE(session.join(makeHello(0, kMaxRanks + 1), loopback()).ok());
  EXPECT_FALSE(session.over());
}

TEST(AgreementSession, ASecondHelloOfARankIsRefusedAndTold) {
  AgreementSession session = newSession();
  ASSERT_TRUE(session.join(makeHello(0, 2), loopback()).ok());
  Hello twin = makeHello(0, 2);
  twin.host = "elsewhere";
  EXPECT_FALSE(session.join(twin, loopback()).ok());
  ASSERT_TRUE(session.join(makeHello(1, 2), loopback()).ok());
  Verdict verdict = verdictOf(session);
  EXPECT_FALSE(verdict.compress);
  EXPECT_EQ(
      verdict.reason.find("rank 0 on host host-0 has greeted twice, the second time from host "
                          "elsewhere"),
      0u)
      << verdict.reason;
}

TEST(AgreementSession, IsOverWhenAllHaveLeft) {
  AgreementSession session = sessionOf(3);
  for (size_t member : {2, 0, 1}) {
    EXPECT_FALSE(session.over());
    session.leave(member, false);
  }
  EXPECT_TRUE(session.over());
  EXPECT_FALSE(newSession().over()) << "nobody has come yet";
}

TEST(AgreementSession, BreachesOfTheProtocolAreErrors) {
  AgreementSession early = newSession();
  ASSERT_TRUE(early.join(makeHello(0, 2), loopback()).ok());
  EXPECT_FALSE(early.vote(0, {1, true}).ok()) << "before the verdict";
  AgreementSession session = sessionOf(2);
  EXPECT_TRUE(session.report(0, {}).ok());
  EXPECT_FALSE(session.report(0, {}).ok());
  EXPECT_TRUE(session.vote(0, {1, true}).ok());
  EXPECT_FALSE(session.vote(0, {1, true}).ok());
}

AgreementSession childOf(std::initializer_list<int> ranks, int nRanks) {
  AgreementSession session = AgreementSession::ofChild();
  for (int rank : ranks) EXPECT_TRUE(session.join(makeHello(rank, nRanks), loopback()).ok());
  return session;
}

TEST(AgreementSession, AChildDecidesWhenAllHaveSaidHelloAndNeverByTheClock) {
  AgreementSession session = childOf({2, 0}, 3);
  EXPECT_FALSE(session.complete());
  EXPECT_TRUE(session.takeBroadcasts().empty());
  EXPECT_FALSE(session.report(0, {}).ok()) << "nothing follows from a real split's return";
  EXPECT_EQ(session.deadline(), kNoDeadline);
  EXPECT_TRUE(session.takeBroadcasts().empty());
  ASSERT_TRUE(session.join(makeHello(1, 3), loopback()).ok());
  EXPECT_TRUE(session.complete());
  Verdict verdict = verdictOf(session);
  EXPECT_TRUE(verdict.compress);
  EXPECT_EQ(verdict.hostIds, (std::vector<uint64_t>{1000, 1001, 1002}));
}

TEST(AgreementSession, AChildIsJudgedLikeAnyOther) {
  AgreementSession session = childOf({0}, 2);
  Hello other = makeHello(1, 2);
  other.settingsHash++;
  other.settings = "CINCH_MODE=on CINCH_CODEC=q4";
  other.refusal = "no memory";
  ASSERT_TRUE(session.join(other, loopback()).ok());
  EXPECT_EQ(verdictOf(session).reason,
            "rank 1 on host host-1 cannot take part: no memory; rank 1 on host host-1 has other "
            "settings: CINCH_CODEC=q4 there, q8 on rank 0");
}

TEST(AgreementSession, TheFirstWhoLeavesAChildEarlyDecidesForAllAndForThoseToCome) {
  AgreementSession session = childOf({0, 3}, 4);
  session.leave(1, false);
  EXPECT_EQ(verdictOf(session).reason,
            "rank 3 on host host-3 has left before the ranks had agreed");
  EXPECT_FALSE(session.join(makeHello(1, 4), loopback()).ok());
  session.leave(0, false);
  EXPECT_TRUE(session.takeBroadcasts().empty()) << "one verdict";
  EXPECT_TRUE(session.over());
  EXPECT_FALSE(session.complete());
}

TEST(AgreementSession, OpenTopicsAreBounded) {
  AgreementSession session = sessionOf(2);
  verdictOf(session);
  for (uint64_t topic = 0; topic < kMaxOpenTopics; ++topic) {
    ASSERT_TRUE(session.vote(0, {topic, true}).ok());
  }
  EXPECT_FALSE(session.vote(0, {kMaxOpenTopics, true}).ok());
  ASSERT_TRUE(session.vote(1, {5, true}).ok());
  EXPECT_TRUE(session.vote(0, {kMaxOpenTopics, true}).ok()) << "one was settled";
  EXPECT_EQ(outcomesOf(session, 2), (std::map<uint64_t, bool>{{5, true}}));
}

// Ranks vote in random interleavings, some far ahead; some leave at random. A model knows what must
// come out: each topic exactly once, when all have voted; none once somebody has left.
struct VoteModel {
  explicit VoteModel(int n) : next(static_cast<size_t>(n)), gone(static_cast<size_t>(n)) {}
  std::vector<size_t> next;  // by rank: how many of its topics it has voted on
  std::vector<bool> gone;
};

class RandomVotes : public ::testing::TestWithParam<int> {};

TEST_P(RandomVotes, ComeOutAsTheAndOfAll) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  int nRanks = 1 + static_cast<int>(random() % 8);
  constexpr size_t kTopics = 60;
  bool someLeave = random() % 2 == 0;
  AgreementSession session = sessionOf(nRanks);
  verdictOf(session);
  VoteModel model(nRanks);
  std::vector<std::vector<uint64_t>> orders(static_cast<size_t>(nRanks));
  std::map<uint64_t, bool> expected;
  std::vector<std::vector<bool>> says(static_cast<size_t>(nRanks), std::vector<bool>(kTopics));
  for (size_t rank = 0; rank < orders.size(); ++rank) {
    for (uint64_t topic = 0; topic < kTopics; ++topic) {
      orders[rank].push_back(topic);
      says[rank][topic] = random() % 10 != 0;
    }
    std::shuffle(orders[rank].begin(), orders[rank].end(), random);
  }
  std::vector<std::set<uint64_t>> voted(static_cast<size_t>(nRanks));
  std::map<uint64_t, bool> told;
  auto present = [&] { return std::count(model.gone.begin(), model.gone.end(), false); };
  auto check = [&] {
    for (uint64_t topic = 0; topic < kTopics && present() == nRanks; ++topic) {
      bool all = true, yes = true;
      for (size_t rank = 0; rank < voted.size(); ++rank) {
        all = all && voted[rank].count(topic) != 0;
        yes = yes && says[rank][topic];
      }
      if (all) expected.emplace(topic, yes);
    }
    for (auto [topic, yes] : outcomesOf(session, static_cast<size_t>(nRanks))) {
      ASSERT_TRUE(told.emplace(topic, yes).second) << "topic " << topic << " told twice";
    }
    ASSERT_EQ(told, expected);
  };
  while (present() > 0) {
    size_t rank = random() % static_cast<size_t>(nRanks);
    if (model.gone[rank]) continue;
    bool leaves = model.next[rank] == kTopics || (someLeave && random() % 100 == 0);
    if (leaves && (someLeave || told.size() == kTopics)) {
      model.gone[rank] = true;
      session.leave(rank, false);
    } else if (model.next[rank] < kTopics) {
      uint64_t topic = orders[rank][model.next[rank]++];
      voted[rank].insert(topic);
      ASSERT_TRUE(session.vote(rank, {topic, says[rank][topic]}).ok());
    }
    if (present() > 0) check();
  }
  EXPECT_TRUE(session.over());
  if (!someLeave) {
    EXPECT_EQ(told.size(), kTopics);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomVotes, ::testing::Range(0, 60));

TEST(AgreementSessions, WhatWasDecidedOutlivesASessionWhoseRanksWereLost) {
  AgreementSessions sessions({.maxOutcomes = 2});
  const auto end = [&](Nonce nonce, bool isLost) {
    Session session(AgreementSession::takenOver(1, std::chrono::seconds(1)));
    ASSERT_TRUE(sessions.begin(nonce, std::move(session)).ok());
    ASSERT_TRUE(sessions.join({nonce, makeHello(0, 1)}, loopback()).ok());
    EXPECT_FALSE(sessions.outcomeOf(nonce, 1)) << "its rank is there";
    sessions.leave(nonce, 0, isLost);
    sessions.endIfOver(nonce);
    EXPECT_EQ(sessions.find(nonce), nullptr);
  };
  end(5, false);
  EXPECT_FALSE(sessions.outcomeOf(5, 1)) << "it has left, and will not ask";
  for (const Nonce nonce : {6, 7, 8}) end(nonce, true);
  EXPECT_FALSE(sessions.outcomeOf(6, 1)) << "what is kept has a bound";
  for (const Nonce nonce : {7, 8}) EXPECT_TRUE(sessions.outcomeOf(nonce, 1));
}

}  // namespace
}  // namespace cinch
