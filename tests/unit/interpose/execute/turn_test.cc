// Calls of slots that are compressed only where that is faster: CINCH_STRATEGY=auto.
#include "interpose/execute/turn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "tests/unit/interpose/support/job.h"

namespace cinch {
namespace {

using test::fakeReal;
using test::Work;

constexpr size_t kCount = 40000;
constexpr uint64_t kRound = StrategyChooser::kRound;
// What the fakes' one thread may be ahead of the background.
constexpr uint64_t kSettled = 2 * kRound + 1;

class TurnTest : public test::JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    ranks_ = test::makeRanks(2);
  }
  void TearDown() override {
    test::awaitBackground(ranks_);
    EXPECT_TRUE(fakeReal().isIdle());
  }
  // On the device, in seconds: what the host takes beside that, it takes in truth, and on a busy
  // machine or with a sanitizer that is tens of milliseconds.
  static void callsTake(double plain, double compressed) {
    test::setCosts({{"AllReduce", 1000 * plain}, {"encode", 1000 * compressed}});
  }
  static bool isExact(const Work& work) {
    return work.received(0) == work.expected(0) && work.received(1) == work.expected(1);
  }
  // Of `n` steps, how many passed; the ranks always did the same.
  static uint64_t passes(const Work& work, uint64_t n) {
    uint64_t nPassed = 0;
    for (uint64_t i = 0; i < n; ++i) {
      EXPECT_EQ(test::runInGroup({&work}), ncclSuccess);
      EXPECT_EQ(work.received(0), work.received(1));
      nPassed += isExact(work);
    }
    return nPassed;
  }
  static SlotStrategy& strategyOf(const Work& work, int rank) { return *work.slot(rank).strategy; }

  test::TestRanks ranks_;
};

TEST_F(TurnTest, PassWherePlainCallsAreFaster) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  EXPECT_LT(passes(work, kSettled), kSettled);
  EXPECT_EQ(passes(work, 50), 50u);
  EXPECT_GE(test::passedCalls(*ranks_[0]->comm, Reason::slower), 50u);
  for (int rank : {0, 1}) {
    const StrategyFigures& figures = work.slot(rank).stats->strategy;
    EXPECT_TRUE(figures.choice.load() == 0);
    EXPECT_NEAR(static_cast<double>(figures.times[0].load()), 1e9, 0.1e9);
    EXPECT_NEAR(static_cast<double>(figures.times[1].load()), 6e9, 0.6e9)
        << "the thread encodes both ranks' values";
    EXPECT_EQ(figures.trials.load(), 1u);
  }
}

TEST_F(TurnTest, AreCompressedWhereThatIsFaster) {
  callsTake(9, 1);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  passes(work, kRound);
  EXPECT_EQ(passes(work, 100), 0u);
  EXPECT_FALSE(work.slot(0).stats->strategy.choice.load() == 0);
  EXPECT_GT(work.slot(0).stats->guard.checks.load(), 3u) << "examined calls are not timed";
  EXPECT_EQ(strategyOf(work, 0).chooser.nTrials(), 1u);
}

TEST_F(TurnTest, FollowTheLink) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  passes(work, 50);
  callsTake(40, 8);
  passes(work, 50);
  EXPECT_EQ(passes(work, 30), 0u);
  callsTake(1, 3);
  passes(work, 50);
  EXPECT_EQ(passes(work, 30), 30u);
  for (int rank : {0, 1}) EXPECT_EQ(strategyOf(work, rank).nextTurn, strategyOf(work, 0).nextTurn);
}

TEST_F(TurnTest, StartFromZeroResidualsAfterALongTime) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  passes(work, 50);
  const uint64_t resets = work.slot(0).stats->residualResets.load();
  callsTake(40, 8);
  passes(work, 60);
  EXPECT_EQ(work.slot(0).stats->residualResets.load(), resets + 1);
}

TEST_F(TurnTest, OfOneGroupAreNotTimed) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  for (int group = 0; group < 20; ++group)
    ASSERT_EQ(test::runInGroup({&work, &work, &work, &work, &work}), ncclSuccess);
  EXPECT_EQ(strategyOf(work, 0).chooser.time(Strategy::compress), 0u);
  EXPECT_EQ(strategyOf(work, 1).nextTurn, strategyOf(work, 0).nextTurn);
  EXPECT_EQ(work.received(0), work.received(1));
}

TEST_F(TurnTest, OfDifferentSlotsInOneGroupAre) {
  callsTake(1, 3);
  const Work first(ranks_, CallKind::allReduce, kCount), second(ranks_, CallKind::allReduce, 70000);
  getReady(first);
  getReady(second);
  for (uint64_t group = 0; group < 3 * kSettled; ++group)
    ASSERT_EQ(test::runInGroup({&first, &second}), ncclSuccess);
  for (const Work* work : {&first, &second}) {
    EXPECT_TRUE(work->slot(0).stats->strategy.choice.load() == 0);
    EXPECT_TRUE(isExact(*work));
  }
}

// A program may enqueue many calls before it lets the device go on.
TEST_F(TurnTest, AreNotWaitedForWhereTheDeviceIsLate) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  test::setEventsPending(true);
  const auto begun = std::chrono::steady_clock::now();
  passes(work, 12 * kRound);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
  EXPECT_GT(strategyOf(work, 0).chooser.delay(), 2u);
  EXPECT_EQ(strategyOf(work, 0).chooser.nTrials(), 0u);
  test::setEventsPending(false);
  EXPECT_EQ(ranks_[0]->comm->health(), ncclSuccess);
  passes(work, 60 * kRound);
  EXPECT_EQ(passes(work, 10), 10u);
}

TEST_F(TurnTest, ThatAreSimulatedAreTakenBack) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  for (uint64_t step = 0; step < 60; ++step) {
    passes(work, 1);
    SlotStrategy& strategy = strategyOf(work, 0);
    const uint64_t turn = strategy.nextTurn;
    const auto nTurns = strategy.nTurns;
    test::groupStart();
    ASSERT_EQ(work.part(0).submit(), ncclSuccess);
    OpenGroup::forget(test::fakeRealTable());
    fakeReal().depth = 0;
    fakeReal().recorded.clear();
    EXPECT_EQ(strategy.nextTurn, turn);
    EXPECT_EQ(strategy.nTurns, nTurns);
  }
  EXPECT_TRUE(work.slot(0).stats->strategy.choice.load() == 0);
}

TEST_F(TurnTest, ThatAreManyAreTakenBackTogether) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  passes(work, 10 * kRound);
  SlotStrategy& strategy = strategyOf(work, 0);
  const uint64_t turn = strategy.nextTurn;
  const auto nTurns = strategy.nTurns;
  test::groupStart();
  for (int call = 0; call < 40; ++call) ASSERT_EQ(work.submit(), ncclSuccess);
  OpenGroup::forget(test::fakeRealTable());
  fakeReal().depth = 0;
  fakeReal().recorded.clear();
  for (int rank : {0, 1}) {
    EXPECT_EQ(strategyOf(work, rank).nextTurn, turn);
    EXPECT_EQ(strategyOf(work, rank).nTurns, nTurns);
    EXPECT_EQ(ranks_[static_cast<size_t>(rank)]->comm->health(), ncclSuccess);
  }
  EXPECT_EQ(passes(work, 50), 50u);
}

TEST_F(TurnTest, ThatAreTakenBackLeaveTheirResiduals) {
  callsTake(9, 1);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  passes(work, 4 * kRound);
  const uint64_t resets = work.slot(0).stats->residualResets.load();
  test::groupStart();
  for (int call = 0; call < 3; ++call) ASSERT_EQ(work.submit(), ncclSuccess);
  OpenGroup::forget(test::fakeRealTable());
  fakeReal().depth = 0;
  fakeReal().recorded.clear();
  EXPECT_EQ(passes(work, 5), 0u);
  EXPECT_EQ(work.slot(0).stats->residualResets.load(), resets);
}

TEST_F(TurnTest, ThatCannotBeRepeatedFailTheCommunicator) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  passes(work, 10 * kRound);
  test::groupStart();
  for (uint64_t call = 0; call < (StrategyChooser::kRoundsKept + 2) * kRound; ++call)
    ASSERT_EQ(work.submit(), ncclSuccess);
  OpenGroup::forget(test::fakeRealTable());
  fakeReal().depth = 0;
  fakeReal().recorded.clear();
  for (const auto& rank : ranks_) EXPECT_NE(rank->comm->health(), ncclSuccess);
}

TEST_F(TurnTest, ThatNcclRefusesAreTakenBack) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  passes(work, 50);
  const uint64_t turn = strategyOf(work, 0).nextTurn;
  fakeReal().failAt = static_cast<int>(fakeReal().calls.size());
  fakeReal().failure = ncclInvalidArgument;
  EXPECT_EQ(work.part(0).submit(), ncclInvalidArgument);
  fakeReal().failAt = -1;
  EXPECT_EQ(strategyOf(work, 0).nextTurn, turn);
}

TEST_F(TurnTest, GoOnWhereARankCannotTimeThem) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  strategyOf(work, 1).stopwatch.~Stopwatch();
  new (&strategyOf(work, 1).stopwatch) Stopwatch();
  passes(work, kSettled);
  EXPECT_EQ(passes(work, 20), 20u);
}

TEST_F(TurnTest, AreNotChosenBetweenWhereARankHasLeft) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  passes(work, kRound);
  ranks_[1]->comm->agreement().close();
  uint64_t step = 0;
  while (step < 3 * kRound && test::runInGroup({&work}) == ncclSuccess) ++step;
  EXPECT_LT(step, 3 * kRound) << "who has left cannot know what the others do";
  EXPECT_NE(ranks_[1]->comm->health(), ncclSuccess);
  test::awaitBackground(ranks_);
  ranks_.clear();
  test::resetFakes();
}

}  // namespace
}  // namespace cinch
