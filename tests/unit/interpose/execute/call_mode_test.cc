// Calls that are compressed only where that is faster: CINCH_WHEN=auto. With CINCH_SLOTS=signature
// each call is a period of its own.
#include "interpose/execute/call_mode.h"

#include <gtest/gtest.h>

#include <chrono>

#include "interpose/execute/open_group.h"
#include "tests/unit/interpose/support/job.h"

namespace cinch {
namespace {

using test::fakeReal;
using test::Work;

constexpr size_t kCount = 40000;
// Calls until it is known what is faster: some blocks of four until their timings are there, a
// probe, and a round of four blocks or two.
constexpr uint64_t kSelected = 80;

class CallModeTest : public test::JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    ranks_ = test::makeRanks(2);
  }
  void TearDown() override {
    test::awaitBackground(ranks_);
    EXPECT_TRUE(fakeReal().isIdle());
  }
  // On the device, in seconds.
  static void callsTake(double plain, double compressed) {
    test::setCosts({{"AllReduce", 1000 * plain}, {"encode", 1000 * compressed}});
  }
  static bool isExact(const Work& work) {
    return work.received(0) == work.expected(0) && work.received(1) == work.expected(1);
  }
  // Of `n` steps, how many were plain; the ranks always did the same.
  static uint64_t plainOf(const Work& work, uint64_t n) {
    uint64_t nPlain = 0;
    for (uint64_t i = 0; i < n; ++i) {
      EXPECT_EQ(test::runInGroup({&work}), ncclSuccess);
      EXPECT_EQ(work.received(0), work.received(1));
      nPlain += isExact(work);
    }
    return nPlain;
  }
  // As a CUDA graph's capture, or a simulated group: what is in the group never happens.
  static void forgetGroup() {
    OpenGroup::forget(test::fakeRealTable());
    fakeReal().depth = 0;
    fakeReal().recorded.clear();
  }
  static uint64_t choiceOf(const Work& work, int rank) {
    return work.slot(rank).stats->sending.choice.load();
  }

  test::TestRanks ranks_;
};

TEST_F(CallModeTest, PlainWherePlainIsFaster) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  EXPECT_LT(plainOf(work, kSelected), kSelected);
  EXPECT_EQ(plainOf(work, 100), 100u);
  EXPECT_GE(test::passedCalls(*ranks_[0]->comm, Reason::slower), 100u);
  for (int rank : {0, 1}) {
    const SendingFigures& figures = work.slot(rank).stats->sending;
    EXPECT_EQ(figures.choice.load(), 0u);
    EXPECT_NEAR(static_cast<double>(figures.times[0].load()), 2e9, 0.1e9)
        << "the thread makes both ranks' calls";
    EXPECT_EQ(figures.examinations.load(), 1u);
  }
}

TEST_F(CallModeTest, CompressedWhereThatIsFaster) {
  callsTake(9, 1);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  plainOf(work, kSelected);
  EXPECT_EQ(plainOf(work, 150), 0u);
  EXPECT_EQ(choiceOf(work, 0), 2u);
  EXPECT_GT(work.slot(0).stats->guard.checks.load(), 3u);
  EXPECT_TRUE(work.slot(0).residuals.areHeld());
}

TEST_F(CallModeTest, HoldsResidualsOnlyWhereCompressedIsTriedOrSent) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  EXPECT_FALSE(work.slot(0).residuals.areHeld());
  plainOf(work, kSelected);
  EXPECT_FALSE(work.slot(0).residuals.areHeld()) << "it has lost";
  callsTake(40, 8);
  plainOf(work, kSelected);
  EXPECT_TRUE(work.slot(0).residuals.areHeld());
  callsTake(1, 3);
  plainOf(work, kSelected);
  EXPECT_FALSE(work.slot(0).residuals.areHeld());
  EXPECT_EQ(test::fakeDevice().count("release"), 0u) << "which would wait for the device";
}

// Of one rank's.
TEST_F(CallModeTest, PlainWithoutMemoryForResiduals) {
  callsTake(9, 1);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  test::setFree(1000);
  EXPECT_EQ(plainOf(work, 3 * kSelected), 3 * kSelected);
  for (const auto& rank : ranks_) EXPECT_EQ(rank->comm->health(), ncclSuccess);
}

TEST_F(CallModeTest, FollowsTheLink) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  plainOf(work, 150);
  callsTake(40, 8);
  plainOf(work, kSelected);
  EXPECT_EQ(plainOf(work, 100), 0u);
  callsTake(1, 3);
  plainOf(work, kSelected);
  EXPECT_EQ(plainOf(work, 100), 100u);
  EXPECT_EQ(work.slot(0).made.nCalls, work.slot(1).made.nCalls);
}

TEST_F(CallModeTest, StartsFromZeroResidualsAfterALongTime) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  plainOf(work, 150);
  const uint64_t resets = work.slot(0).stats->residualResets.load();
  callsTake(40, 8);
  plainOf(work, kSelected);
  EXPECT_EQ(plainOf(work, 20), 0u);
  EXPECT_GT(work.slot(0).stats->residualResets.load(), resets);
}

TEST_F(CallModeTest, SlotsOfOneGroupAreSelectedApart) {
  callsTake(1, 3);
  const Work first(ranks_, CallKind::allReduce, kCount), second(ranks_, CallKind::allReduce, 70000);
  getReady(first);
  getReady(second);
  for (uint64_t group = 0; group < 2 * kSelected; ++group)
    ASSERT_EQ(test::runInGroup({&first, &second}), ncclSuccess);
  for (const Work* work : {&first, &second}) {
    EXPECT_EQ(choiceOf(*work, 0), 0u);
    EXPECT_TRUE(isExact(*work));
  }
}

// Their timings are on their way before the group ends, which they might wait for.
TEST_F(CallModeTest, AGroupOfManyCallsOfOneSlotWaitsForNobody) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  const auto begun = std::chrono::steady_clock::now();
  for (const size_t nCalls : {1u, 9u, 16u, 64u, 3u, 40u, 8u, 8u, 8u})
    ASSERT_EQ(test::runInGroup(std::vector<const Work*>(nCalls, &work)), ncclSuccess);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
  EXPECT_EQ(ranks_[0]->comm->health(), ncclSuccess);
  EXPECT_EQ(work.received(0), work.received(1));
}

TEST_F(CallModeTest, ManyCallsAreTakenBackTogether) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  plainOf(work, 20);
  for (int group = 0; group < 5; ++group) {
    const uint64_t nCalls = work.slot(0).made.nCalls;
    test::groupStart();
    for (int call = 0; call < 40; ++call) ASSERT_EQ(work.submit(), ncclSuccess);
    forgetGroup();
    for (const int rank : {0, 1}) {
      EXPECT_EQ(work.slot(rank).made.nCalls, nCalls);
      EXPECT_EQ(ranks_[static_cast<size_t>(rank)]->comm->health(), ncclSuccess);
    }
    plainOf(work, 7);
  }
  plainOf(work, 2 * kSelected);
  EXPECT_EQ(plainOf(work, 20), 20u);
}

// A program may enqueue many calls before it lets the device go on.
TEST_F(CallModeTest, NobodyWaitsForADeviceThatIsLate) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  test::setEventsPending(true);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(plainOf(work, 100), 100u);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
  test::setEventsPending(false);
  EXPECT_EQ(ranks_[0]->comm->health(), ncclSuccess);
  plainOf(work, 2 * kSelected);
  EXPECT_EQ(plainOf(work, 20), 20u);
  EXPECT_GT(work.slot(0).stats->sending.examinations.load(), 0u);
}

TEST_F(CallModeTest, ASimulatedGroupChangesNothing) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  for (uint64_t step = 0; step < 2 * kSelected; ++step) {
    plainOf(work, 1);
    const SlotCalls before = work.slot(0).made;
    test::groupStart();
    ASSERT_EQ(work.part(0).submit(), ncclSuccess);
    forgetGroup();
    EXPECT_EQ(work.slot(0).made.nCalls, before.nCalls);
    EXPECT_EQ(work.slot(0).made.nCompressed, before.nCompressed);
    ASSERT_EQ(ranks_[0]->comm->health(), ncclSuccess) << step;
  }
  EXPECT_EQ(choiceOf(work, 0), 0u);
  EXPECT_EQ(choiceOf(work, 1), 0u);
  const SendingFigures &one = work.slot(0).stats->sending, &other = work.slot(1).stats->sending;
  EXPECT_EQ(one.periods.load(), other.periods.load());
  EXPECT_EQ(one.examinations.load(), other.examinations.load());
  EXPECT_EQ(one.examinedAt.load(), other.examinedAt.load());
}

TEST_F(CallModeTest, ACallThatNcclRefusesChangesNothing) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  plainOf(work, 150);
  const uint64_t nCalls = work.slot(0).made.nCalls;
  fakeReal().failAt = static_cast<int>(fakeReal().calls.size());
  fakeReal().failure = ncclInvalidArgument;
  EXPECT_EQ(work.part(0).submit(), ncclInvalidArgument);
  fakeReal().failAt = -1;
  EXPECT_EQ(work.slot(0).made.nCalls, nCalls);
}

TEST_F(CallModeTest, ATakenBackCallLeavesItsResiduals) {
  callsTake(9, 1);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  plainOf(work, kSelected);
  const uint64_t resets = work.slot(0).stats->residualResets.load();
  test::groupStart();
  ASSERT_EQ(work.submit(), ncclSuccess);
  forgetGroup();
  EXPECT_EQ(plainOf(work, 5), 0u);
  EXPECT_EQ(work.slot(0).stats->residualResets.load(), resets);
}

// Who has left cannot know what the others do.
TEST_F(CallModeTest, ARankThatHasLeftFails) {
  callsTake(1, 3);
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  plainOf(work, 4);
  ranks_[1]->comm->agreement().close();
  uint64_t step = 0;
  while (step < 40 && test::runInGroup({&work}) == ncclSuccess) ++step;
  EXPECT_LT(step, 40u);
  EXPECT_NE(ranks_[1]->comm->health(), ncclSuccess);
  test::awaitBackground(ranks_);
  ranks_.clear();
  test::resetFakes();
}

}  // namespace
}  // namespace cinch
