// Calls of slots whose turns may be quick: CINCH_CODEC=auto with CINCH_STRATEGY=auto.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "interpose/execute/turn.h"
#include "tests/unit/interpose/support/job.h"

namespace cinch {
namespace {

using test::fakeReal;
using test::Work;

constexpr size_t kCount = 40000;
constexpr uint64_t kRound = StrategyChooser::kRound;

class QuickTurnTest : public test::JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    ranks_ = test::makeRanks(2);
  }
  void TearDown() override {
    test::awaitBackground(ranks_);
    EXPECT_TRUE(fakeReal().isIdle());
  }
  // What a step did: plain calls have no error, and the other two have about the same at first.
  static Strategy step(const Work& work) {
    const SlotStrategy& strategy = *work.slot(0).strategy;
    const auto quickTurns = [&] { return strategy.nTurns[static_cast<size_t>(Strategy::quick)]; };
    const uint64_t before = quickTurns();
    EXPECT_EQ(test::runInGroup({&work}), ncclSuccess);
    EXPECT_EQ(work.received(0), work.received(1));
    const double error = work.errorOf(0);
    EXPECT_LT(error, 0.15);
    if (quickTurns() > before) {
      EXPECT_GT(error, 0);
      EXPECT_LT(error, 0.01);
      return Strategy::quick;
    }
    return error == 0 ? Strategy::pass : Strategy::compress;
  }
  // In all steps but those that are examined, of which a quick one is compressed.
  static void finds(const Work& work, Strategy strategy, int nSteps) {
    int nOthers = 0;
    for (int i = 0; i < nSteps; ++i) nOthers += step(work) != strategy;
    const int nExamined = strategy == Strategy::quick ? nSteps / 8 : 0;
    EXPECT_LE(nOthers, nExamined + 1);
    EXPECT_GE(nOthers, nExamined);
    EXPECT_EQ(work.slot(0).strategy->chooser.choice(), strategy);
  }

  test::TestRanks ranks_;
};

TEST_F(QuickTurnTest, TheFirstRoundTriesAllThree) {
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  for (uint64_t turn = work.slot(0).strategy->nextTurn; turn < kRound; ++turn)
    EXPECT_EQ(step(work), turn < 3   ? Strategy::pass
                          : turn < 6 ? Strategy::compress
                                     : Strategy::quick);
}

// The device's clock stands still but for what the calls cost, in ms, beside which what the host
// takes does not count; an encode of either kind is one call, so that only what else a compressed
// one does tells them apart.
TEST_F(QuickTurnTest, WhatIsFasterIsDone) {
  test::setCosts({{"AllReduce", 900}, {"encode", 100}, {"probe", 300}});
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  for (uint64_t turn = 0; turn < 10 * kRound; ++turn) step(work);  // quick calls are tried again
  finds(work, Strategy::quick, 50);
  test::setCosts({{"AllReduce", 100}, {"encode", 1000}});
  for (int turn = 0; turn < 50; ++turn) step(work);
  finds(work, Strategy::pass, 50);
}

TEST_F(QuickTurnTest, NonFiniteValuesOfAQuickCallLeaveNoTrace) {
  test::setCosts({{"AllReduce", 900}, {"encode", 100}, {"probe", 300}});
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  for (uint64_t turn = 0; turn < 3 * kRound; ++turn) step(work);
  while (step(work) != Strategy::quick) continue;
  auto* values = static_cast<float*>(const_cast<void*>(work.part(0).call.send));
  const float kept = values[7];
  values[7] = std::numeric_limits<float>::infinity();
  ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
  EXPECT_FALSE(std::isfinite(work.received(1)[7]));
  values[7] = kept;
  for (uint64_t turn = 0; turn < 4 * kRound; ++turn) step(work);
}

// A compressed call leaves values that are not finite in its residuals, which the next one that has
// any must not add, whatever comes between.
TEST_F(QuickTurnTest, NonFiniteResidualsWaitForTheNextCallThatHasThem) {
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  while (work.slot(0).strategy->nextTurn < 5) step(work);
  auto* values = static_cast<float*>(const_cast<void*>(work.part(0).call.send));
  const float kept = values[7];
  values[7] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
  EXPECT_TRUE(std::isnan(work.received(1)[7]));
  values[7] = kept;
  for (int turn = 6; turn < 8; ++turn) EXPECT_EQ(step(work), Strategy::quick);
  EXPECT_EQ(step(work), Strategy::compress);
}

}  // namespace
}  // namespace cinch
