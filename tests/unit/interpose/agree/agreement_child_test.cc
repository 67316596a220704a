// Communicators made from others: ranks as threads, or one thread for all, against a real server.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>

#include "tests/unit/interpose/agree/agreement_fixture.h"

namespace cinch {
namespace {

class AgreementChild : public AgreementFixture {
 protected:
  // All ranks of a communicator of `n`.
  Ranks newParents(int n) {
    Ranks parents = greetAll(newId(), n);
    EXPECT_TRUE(verdictOfAll(parents).compress);
    return parents;
  }

  // The ranks `of` those of the parents, in this order, as ranks 0, 1, ... of one child.
  static Ranks split(const Ranks& parents, const std::vector<size_t>& of, uint64_t ordinal,
                     int64_t part) {
    Ranks child;
    const int n = static_cast<int>(of.size());
    for (int rank = 0; rank < n; ++rank) {
      const Agreement& parent = *parents[of[static_cast<size_t>(rank)]];
      child.push_back(greetChild(parent, ordinal, part, makeHello(rank, n)));
    }
    return child;
  }

  // True where a vote of yes by all comes out as yes, on all.
  static bool allVoteYes(const Ranks& ranks, uint64_t topic) {
    for (const auto& rank : ranks) EXPECT_TRUE(rank->castVote(topic, true).ok());
    size_t yes = 0;
    for (const auto& rank : ranks) yes += allSaidYes(*rank, topic) ? 1 : 0;
    EXPECT_TRUE(yes == 0 || yes == ranks.size());
    return yes == ranks.size();
  }
};

TEST_F(AgreementChild, EachColourOfASplitAgreesByItself) {
  Ranks parents = newParents(6);
  Ranks even = split(parents, {0, 2, 4}, 0, 0);
  Ranks odd = split(parents, {5, 3, 1}, 0, 1);
  Verdict verdict = verdictOfAll(even);
  EXPECT_TRUE(verdict.compress) << verdict.reason;
  EXPECT_EQ(verdict.hostIds.size(), 3u);
  EXPECT_TRUE(verdictOfAll(odd).compress);
  odd[1].reset();
  EXPECT_TRUE(allVoteYes(even, 1)) << "a colour's leaver is nothing to the others";
  ASSERT_TRUE(odd[0]->castVote(1, true).ok() && odd[2]->castVote(1, true).ok());
  EXPECT_FALSE(allSaidYes(*odd[0], 1));
}

TEST_F(AgreementChild, ADifferenceInOneColourIsNamedThereOnly) {
  Ranks parents = newParents(4);
  Hello other = makeHello(1, 2);
  other.refusal = "no memory";
  Ranks bad;
  bad.push_back(greetChild(*parents[0], 3, 7, makeHello(0, 2)));
  bad.push_back(greetChild(*parents[1], 3, 7, other));
  Ranks good = split(parents, {2, 3}, 3, 8);
  EXPECT_EQ(verdictOfAll(bad).reason, "rank 1 on host host-1 cannot take part: no memory");
  EXPECT_TRUE(verdictOfAll(good).compress);
}

TEST_F(AgreementChild, ChildrenOfChildrenAgreeAlsoWhenTheirParentsAreGone) {
  Ranks parents = newParents(4);
  Ranks child = split(parents, {0, 1, 2}, 0, 0);
  parents.clear();
  ASSERT_TRUE(verdictOfAll(child).compress);
  Ranks grandchild = split(child, {2, 1}, 0, 0);
  child.clear();
  ASSERT_TRUE(verdictOfAll(grandchild).compress);
  Ranks last = split(grandchild, {0, 1}, 9, -1);
  EXPECT_TRUE(verdictOfAll(last).compress);
  EXPECT_TRUE(allVoteYes(last, 1));
}

// As after a failure: one rank of the parent has gone, the others shrink to a smaller communicator.
TEST_F(AgreementChild, RanksThatRemainAgreeWithoutTheOneThatHasLeft) {
  Ranks parents = newParents(4);
  parents[2].reset();
  Ranks remaining = split(parents, {0, 1, 3}, 0, -17);
  EXPECT_TRUE(verdictOfAll(remaining).compress);
  EXPECT_TRUE(allVoteYes(remaining, 1));
  for (size_t rank : {0, 1, 3}) ASSERT_TRUE(parents[rank]->castVote(1, true).ok());
  for (size_t rank : {0, 1, 3}) EXPECT_FALSE(allSaidYes(*parents[rank], 1));
}

TEST_F(AgreementChild, OneThreadCanSpeakForAllItsRanksInTurn) {
  Ranks parents = newParents(3);
  Ranks child = split(parents, {0, 1, 2}, 0, 0);
  for (const auto& rank : child) EXPECT_TRUE(rank->awaitVerdict(kTestSeconds).value().compress);
  EXPECT_TRUE(allVoteYes(child, 1));
}

TEST_F(AgreementChild, ASlowMemberIsWaitedForBeyondTheTimeForReports) {
  limits_.reportTime = std::chrono::milliseconds(1);
  startServer();
  Ranks parents = newParents(3);
  Ranks child;
  for (int rank : {0, 1}) {
    child.push_back(greetChild(*parents[static_cast<size_t>(rank)], 0, 0, makeHello(rank, 3)));
  }
  std::vector<std::thread> waiters;
  std::atomic<int> told{0};
  for (const auto& rank : child) {
    waiters.emplace_back([&] {
      auto verdict = rank->awaitVerdict(kTestSeconds);
      if (verdict.ok() && verdict.value().compress) told++;
    });
  }
  // Another communicator comes and goes meanwhile, reports and all.
  EXPECT_TRUE(verdictOfAll(greetAll(newId(), 2)).compress);
  auto slow = greetChild(*parents[2], 0, 0, makeHello(2, 3));
  EXPECT_TRUE(slow->awaitVerdict(kTestSeconds).value().compress);
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(told, 2);
}

TEST_F(AgreementChild, WhoStopsWaitingDecidesForThoseWhoWaitAndThoseWhoCome) {
  Ranks parents = newParents(4);
  auto impatient = greetChild(*parents[0], 0, 0, makeHello(0, 4));
  auto patient = greetChild(*parents[1], 0, 0, makeHello(1, 4));
  auto timedOut = impatient->awaitVerdict(1);
  ASSERT_FALSE(timedOut.ok());
  EXPECT_NE(timedOut.error().message.find("no verdict in time"), std::string::npos);
  auto told = patient->awaitVerdict(kTestSeconds);
  ASSERT_TRUE(told.ok()) << told.error().message;
  EXPECT_EQ(told.value().reason, "rank 0 on host host-0 has left before the ranks had agreed");
  expectTurnedAway(*parents[2], 0, 0, makeHello(2, 4));
  patient.reset();  // now all who came have left
  expectTurnedAway(*parents[3], 0, 0, makeHello(3, 4));
  Ranks next = split(parents, {0, 1, 2, 3}, 1, 0);
  EXPECT_TRUE(verdictOfAll(next).compress) << "the next split starts afresh";
}

TEST_F(AgreementChild, AParentThatNobodyHasOpenHasNoNewChildren) {
  Ranks parents = newParents(2);
  for (const auto& parent : parents) parent->close();
  // The server hears of it in a moment, which no message of ours can tell.
  const Deadline deadline = deadlineIn(std::chrono::seconds(kTestSeconds));
  for (uint64_t ordinal = 0;; ++ordinal) {
    ASSERT_LT(Clock::now(), deadline);
    const auto child =
        Agreement::greetChild(*parents[0], ordinal, 0, makeHello(0, 2), kTestSeconds);
    if (!child.ok()) break;
  }
  expectTurnedAway(*parents[1], 0, 1, makeHello(1, 2));
}

// What counts is that the parent is open on some rank.
TEST_F(AgreementChild, AMemberMayComeAfterItHasClosedTheParent) {
  Ranks parents = newParents(2);
  parents[1]->close();
  Ranks child = split(parents, {0, 1}, 0, 0);
  EXPECT_TRUE(verdictOfAll(child).compress);
}

TEST_F(AgreementChild, TheServersDeathEndsTheWaitForTheVerdict) {
  Ranks parents = newParents(2);
  auto child = greetChild(*parents[0], 0, 0, makeHello(0, 2));
  server_.reset();
  auto verdict = child->awaitVerdict(kTestSeconds);
  ASSERT_FALSE(verdict.ok());
  EXPECT_NE(verdict.error().message.find("agreement server at "), std::string::npos);
  EXPECT_FALSE(Agreement::greetChild(*parents[1], 0, 0, makeHello(1, 2), kTestSeconds).ok());
}

TEST_F(AgreementChild, GreetSaysWhatIsWrongWithARank) {
  Ranks parents = newParents(2);
  EXPECT_FALSE(Agreement::greetChild(*parents[0], 0, 0, makeHello(2, 2), kTestSeconds).ok());
  EXPECT_FALSE(Agreement::greetChild(*parents[0], 0, 0, makeHello(-1, 2), kTestSeconds).ok());
}

// Threads of one process, each a rank of its own, split and vote on several communicators at once.
TEST_F(AgreementChild, ThreadsSplitAndVoteAtTheirOwnPace) {
  constexpr size_t kRanks = 4;
  constexpr uint64_t kSplits = 40;
  Ranks parents = newParents(kRanks);
  std::atomic<size_t> agreed{0};
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      Ranks open;
      for (uint64_t i = 0; i < kSplits; ++i) {
        // Pairs, by colour: {0, 1} {2, 3}, then {0, 2} {1, 3}, then {0, 3} {1, 2}.
        const size_t partner = rank ^ (1 + i % 3);
        const auto colour = static_cast<int64_t>(std::min(rank, partner));
        open.push_back(greetChild(*parents[rank], i, colour, makeHello(rank < partner ? 0 : 1, 2)));
        auto verdict = open.back()->awaitVerdict(kTestSeconds);
        ASSERT_TRUE(verdict.ok() && verdict.value().compress);
        ASSERT_TRUE(open.back()->castVote(i, true).ok());
      }
      for (uint64_t i = 0; i < kSplits; ++i) {
        ASSERT_TRUE(allSaidYes(*open[i], i));
        agreed++;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(agreed, kRanks * kSplits);
}

TEST_F(AgreementChild, ManyChildrenAreOpenAtOnce) {
  constexpr uint64_t kChildren = 150;
  Ranks parents = newParents(2);
  std::vector<Ranks> children;
  for (uint64_t i = 0; i < kChildren; ++i) children.push_back(split(parents, {0, 1}, i / 3, i % 3));
  for (const Ranks& child : children) ASSERT_TRUE(verdictOfAll(child).compress);
  for (const Ranks& child : children) ASSERT_TRUE(allVoteYes(child, 4));
}

// Members come in any order, some never, some leave at any time, the parent's ranks too. Whatever
// the server makes of it: where one member is told yes, no member is told no or turned away, and
// one that then leaves turns every vote into a no.
class RandomLives : public AgreementChild, public ::testing::WithParamInterface<unsigned> {};

TEST_P(RandomLives, NeverSplitTheMembers) {
  std::mt19937 random(GetParam());
  const int n = 2 + static_cast<int>(random() % 4);
  Ranks parents = newParents(n);
  std::vector<int> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  const bool calm = random() % 3 == 0;  // all come and stay
  Ranks staying;
  int greeted = 0;
  int passing = 0;  // members that go on without compression
  for (int rank : order) {
    const unsigned fate = calm ? 9 : static_cast<unsigned>(random() % 10);
    if (fate == 0) continue;  // dies before its hello
    auto child = Agreement::greetChild(*parents[static_cast<size_t>(rank)], 0, 0,
                                       makeHello(rank, n), kTestSeconds);
    greeted++;
    if (child.ok() && fate > 2)
      staying.push_back(std::move(child.value()));
    else
      passing++;  // turned away, or leaves at once
    if (fate == 3) parents[random() % static_cast<size_t>(n)]->close();
  }
  // Somebody's patience ends where a member is never to come.
  if (greeted < n && passing == 0 && !staying.empty()) {
    staying.pop_back();
    passing++;
  }
  std::vector<bool> yes(staying.size());
  for (size_t i = 0; i < staying.size(); ++i) {
    auto verdict = staying[i]->awaitVerdict(kTestSeconds);
    ASSERT_TRUE(verdict.ok()) << verdict.error().message;
    yes[i] = verdict.value().compress;
  }
  EXPECT_TRUE(std::adjacent_find(yes.begin(), yes.end(), std::not_equal_to<>()) == yes.end());
  const bool agreed = !yes.empty() && yes[0];
  if (agreed) {
    EXPECT_EQ(greeted, n);
    EXPECT_EQ(allVoteYes(staying, 1), passing == 0);
  }
  if (calm) {
    EXPECT_TRUE(agreed);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLives, ::testing::Range(0u, 150u));

}  // namespace
}  // namespace cinch
