// How training steps are sent: CINCH_WHEN=auto, and calls that have a place in the step.
#include <gtest/gtest.h>

#include "interpose/execute/open_group.h"
#include "tests/unit/interpose/support/job.h"

namespace cinch {
namespace {

using test::fakeReal;
using test::Work;

constexpr size_t kCount = 40000;
constexpr CallKind kAllReduce = CallKind::allReduce;
// Until the step is known; it takes some more until the ranks are ready, and that is in force.
constexpr uint32_t kToLearn = 9;
// Until it is known how steps are best sent, and until a link that has changed is followed.
constexpr uint32_t kToSelect = 100;

class SelectedSteps : public test::JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    ranks_ = test::makeRanks(2);
  }
  void TearDown() override {
    test::awaitBackground(ranks_);
    EXPECT_TRUE(fakeReal().isIdle());
    for (const auto& rank : ranks_) EXPECT_EQ(rank->comm->health(), ncclSuccess);
  }
  // On the device, in seconds.
  static void callsTake(double plain, double compressed) {
    test::setCosts({{"AllReduce", 1000 * plain}, {"encode", 1000 * compressed}});
  }
  void broadcast(size_t nParameters) {
    for (const auto& rank : ranks_) {
      rank->comm->decide({CallKind::broadcast, OpClass::none, ncclFloat32, nParameters}, nullptr,
                         nullptr, 0);
      rank->comm->confirm();
    }
  }
  // How many calls of `n` steps were plain. What does not change from step to step is no gradient.
  uint32_t plainOf(uint32_t n, const std::vector<const Work*>& works) {
    uint32_t nPlain = 0;
    for (uint32_t i = 0; i < n; ++i) {
      for (const Work* work : works) {
        work->refill(++nBatches_);
        EXPECT_EQ(test::runInGroup({work}), ncclSuccess);
        EXPECT_EQ(work->received(0), work->received(1));
        nPlain += work->received(0) == work->expected(0);
        test::awaitBackground(ranks_);
        test::awaitDecisions(ranks_);
      }
    }
    return nPlain;
  }
  const SendingFigures& figures(int rank) {
    return *ranks_[static_cast<size_t>(rank)]->comm->selections.figures;
  }

  test::TestRanks ranks_;
  uint64_t nBatches_ = 0;
};

TEST_F(SelectedSteps, ArePlainWherePlainIsFaster) {
  callsTake(1, 3);
  const Work first(ranks_, kAllReduce, kCount), last(ranks_, kAllReduce, kCount + 1);
  broadcast(2 * kCount + 1);
  EXPECT_EQ(plainOf(kToLearn, {&first, &last}), 2 * kToLearn) << "plain is the first incumbent";
  EXPECT_LT(plainOf(kToSelect, {&first, &last}), 2 * kToSelect) << "the others are tried";
  EXPECT_EQ(plainOf(100, {&first, &last}), 200u);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(figures(rank).choice.load(), 0u);
    EXPECT_EQ(figures(rank).examinations.load(), 1u);
    EXPECT_NEAR(static_cast<double>(figures(rank).times[0].load()), 4e9, 0.2e9)
        << "a step, and the thread makes both ranks' calls";
  }
}

TEST_F(SelectedSteps, AreCompressedWhereThatIsFaster) {
  callsTake(9, 1);
  const Work first(ranks_, kAllReduce, kCount), last(ranks_, kAllReduce, kCount + 1);
  broadcast(2 * kCount + 1);
  plainOf(kToLearn + kToSelect, {&first, &last});
  EXPECT_EQ(plainOf(50, {&first, &last}), 0u);
  EXPECT_NE(figures(0).choice.load(), 0u);
  EXPECT_EQ(figures(0).choice.load(), figures(1).choice.load());
}

TEST_F(SelectedSteps, FollowTheLink) {
  callsTake(1, 3);
  const Work first(ranks_, kAllReduce, kCount), last(ranks_, kAllReduce, kCount + 1);
  broadcast(2 * kCount + 1);
  plainOf(kToLearn + kToSelect, {&first, &last});
  callsTake(40, 8);
  plainOf(kToSelect, {&first, &last});
  EXPECT_EQ(plainOf(20, {&first, &last}), 0u);
  callsTake(1, 3);
  plainOf(kToSelect, {&first, &last});
  EXPECT_EQ(plainOf(20, {&first, &last}), 40u);
}

// A program that waits for its device in every twelfth step is that far ahead of it.
TEST_F(SelectedSteps, ADeviceThatIsManyStepsBehindIsWaitedFor) {
  callsTake(9, 1);
  const Work first(ranks_, kAllReduce, kCount), last(ranks_, kAllReduce, kCount + 1);
  broadcast(2 * kCount + 1);
  plainOf(kToLearn + 4, {&first, &last});
  for (int burst = 0; burst < 20; ++burst) {
    test::setEventsPending(true);
    for (int step = 0; step < 12; ++step) {
      for (const Work* work : {&first, &last}) {
        work->refill(++nBatches_);
        ASSERT_EQ(test::runInGroup({work}), ncclSuccess);
        ASSERT_EQ(work->received(0), work->received(1));
      }
    }
    test::setEventsPending(false);
    test::awaitBackground(ranks_);
    test::awaitDecisions(ranks_);
  }
  EXPECT_EQ(plainOf(20, {&first, &last}), 0u);
}

// Masks that are broadcast in each forward pass, or lists of integers.
TEST_F(SelectedSteps, AreTimedBesideLargeCallsOfOtherKinds) {
  callsTake(9, 1);
  const Work first(ranks_, kAllReduce, kCount), last(ranks_, kAllReduce, kCount + 1);
  broadcast(2 * kCount + 1);
  for (uint32_t i = 0; i < kToLearn + kToSelect; ++i) {
    for (const auto& rank : ranks_) {
      rank->comm->decide({CallKind::broadcast, OpClass::none, ncclUint8, 200000}, nullptr, nullptr,
                         0);
      rank->comm->confirm();
    }
    plainOf(1, {&first, &last});
  }
  EXPECT_EQ(plainOf(20, {&first, &last}), 0u);
}

// An evaluation, or a step in another order: what was found holds.
TEST_F(SelectedSteps, ASurpriseChangesNothingThatWasFound) {
  callsTake(9, 1);
  const Work first(ranks_, kAllReduce, kCount), last(ranks_, kAllReduce, kCount + 1);
  broadcast(2 * kCount + 1);
  plainOf(kToLearn + kToSelect, {&first, &last});
  const uint64_t nExaminations = figures(0).examinations.load();
  EXPECT_GT(plainOf(1, {&last, &first}), 0u);
  plainOf(8, {&first, &last});  // its place is found again, and what it reduces
  EXPECT_EQ(plainOf(20, {&first, &last}), 0u);
  EXPECT_EQ(figures(0).examinations.load(), nExaminations);
}

// On one rank alone, as NCCL allows, at any moment.
TEST_F(SelectedSteps, ASimulatedGroupChangesNothing) {
  callsTake(9, 1);
  const Work first(ranks_, kAllReduce, kCount), last(ranks_, kAllReduce, kCount + 1);
  broadcast(2 * kCount + 1);
  plainOf(kToLearn + 4, {&first, &last});  // all are ready
  for (uint32_t i = 0; i < kToSelect; ++i) {
    test::groupStart();
    EXPECT_EQ(first.part(1).submit(), ncclSuccess);
    EXPECT_EQ(last.part(1).submit(), ncclSuccess);
    EXPECT_EQ(first.part(1).submit(), ncclSuccess);
    OpenGroup::forget(test::fakeRealTable());
    fakeReal().recorded.clear();
    fakeReal().depth = 0;
    plainOf(1, {&first, &last});
    ASSERT_EQ(ranks_[1]->comm->health(), ncclSuccess) << i;
  }
  EXPECT_EQ(plainOf(20, {&first, &last}), 0u);
}

TEST_F(SelectedSteps, AnotherStepIsExaminedAnew) {
  callsTake(9, 1);
  const Work first(ranks_, kAllReduce, kCount), last(ranks_, kAllReduce, kCount + 1);
  broadcast(2 * kCount + 1);
  plainOf(kToLearn + kToSelect, {&first, &last});
  callsTake(1, 3);
  const Work other(ranks_, kAllReduce, 2 * kCount), end(ranks_, kAllReduce, kCount + 7);
  broadcast(3 * kCount + 7);
  EXPECT_EQ(plainOf(kToLearn, {&other, &end}), 2 * kToLearn);
  plainOf(kToSelect, {&other, &end});
  EXPECT_EQ(plainOf(20, {&other, &end}), 40u);
  EXPECT_EQ(figures(0).choice.load(), 0u);
}

}  // namespace
}  // namespace cinch
