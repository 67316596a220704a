// Calls that may be stateless: CINCH_CODEC=auto with CINCH_WHEN=auto.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "interpose/execute/call_mode.h"
#include "tests/unit/interpose/support/job.h"

namespace cinch {
namespace {

using test::fakeReal;
using test::Work;

constexpr size_t kCount = 40000;
constexpr int kSelected = 150;  // steps

class StatelessCallTest : public test::JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    ranks_ = test::makeRanks(2);
  }
  void TearDown() override {
    test::awaitBackground(ranks_);
    EXPECT_TRUE(fakeReal().isIdle());
  }
  // How a step was sent: a full one uses the residuals, or is an audit, and exact.
  static Sending sendingOf(const Work& work, const SlotCalls& before) {
    const SlotCalls& now = work.slot(0).made;
    if (now.nCompressed == before.nCompressed) return Sending::plain;
    const bool hasFeedback = now.lastFull == before.nCalls;
    return hasFeedback || work.errorOf(0) == 0 ? Sending::full : Sending::stateless;
  }
  static Sending step(const Work& work) {
    const SlotCalls before = work.slot(0).made;
    EXPECT_EQ(test::runInGroup({&work}), ncclSuccess);
    EXPECT_EQ(work.received(0), work.received(1));
    const Sending sending = sendingOf(work, before);
    const bool hasFeedback = work.slot(0).made.lastFull == before.nCalls;
    EXPECT_TRUE(!hasFeedback || work.slot(0).residuals.areHeld());
    EXPECT_EQ(work.slot(0).residuals.areHeld(), work.slot(1).residuals.areHeld());
    const bool isCoded = sending == Sending::stateless || (sending == Sending::full && hasFeedback);
    EXPECT_EQ(work.errorOf(0) > 0, isCoded);
    return sending;
  }
  static int countOf(const Work& work, Sending sending, int nSteps) {
    int n = 0;
    for (int i = 0; i < nSteps; ++i) n += step(work) == sending;
    return n;
  }
  static void takeSteps(const Work& work, int n) {
    for (int i = 0; i < n; ++i) step(work);
  }

  test::TestRanks ranks_;
};

// Where the guard has raised what calls are sent in, stateless ones do not suit them, and are not
// compared: without residuals such calls are plain.
TEST_F(StatelessCallTest, AreNotTriedWhereNoCallMayBe) {
  test::setCosts({{"AllReduce", 900}, {"encode", 100}, {"probe", 10}});
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  const PrecisionPlan raised{
      .id = 7, .slot = work.slot(0).identity, .runs = {{40, codec::formatOf("q8")}}};
  for (int rank : {0, 1}) {
    Slot& slot = const_cast<Slot&>(work.slot(rank));
    ASSERT_TRUE(slot.changePlan(test::fakeDeviceTable(), raised).ok());
    ASSERT_FALSE(slot.mayBeStateless(slot.made.nCalls));
  }
  EXPECT_EQ(countOf(work, Sending::stateless, kSelected), 0);
  EXPECT_EQ(work.slot(0).stats->sending.times[1].load(), 0u) << "nor timed";
  EXPECT_EQ(work.slot(0).stats->sending.choice.load(), 2u);
}

// The device's clock stands still but for what the calls cost, in ms; an encode of either kind is
// one call, so that only what else a full one does tells them apart.
TEST_F(StatelessCallTest, AllThreeAreTriedAndTheFastestIsSent) {
  test::setCosts({{"AllReduce", 900}, {"encode", 100}, {"probe", 300}});
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  int nFull = 0, nStateless = 0;
  for (int i = 0; i < kSelected; ++i) {
    const Sending sending = step(work);
    nFull += sending == Sending::full;
    nStateless += sending == Sending::stateless;
  }
  EXPECT_GT(nFull, 4);
  EXPECT_GT(nStateless, 4);
  // Calls that are audited are full: one in eight.
  EXPECT_GE(countOf(work, Sending::stateless, 80), 60);
  EXPECT_EQ(work.slot(0).stats->sending.choice.load(), 1u);
  EXPECT_FALSE(work.slot(0).residuals.areHeld()) << "full has lost";
  EXPECT_GT(work.slot(0).stats->guard.checks.load(), 3u);
  test::setCosts({{"AllReduce", 100}, {"encode", 1000}});
  takeSteps(work, kSelected);
  EXPECT_EQ(countOf(work, Sending::plain, 50), 50);
}

TEST_F(StatelessCallTest, FullIsSentWhereThatIsFaster) {
  test::setCosts({{"AllReduce", 900}, {"encode", 300}});
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  takeSteps(work, kSelected);
  EXPECT_EQ(countOf(work, Sending::plain, 50), 0);
}

// On any rank: nobody sends what only feedback makes good.
TEST_F(StatelessCallTest, IsWhatAllSendWhereARankHasNoMemory) {
  test::setCosts({{"AllReduce", 900}, {"encode", 300}});
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  test::setFree(1000);
  for (int i = 0; i < 2 * kSelected; ++i)
    EXPECT_TRUE(step(work) != Sending::full || work.errorOf(0) == 0);
  EXPECT_EQ(work.slot(0).stats->sending.choice.load(), 1u);
  EXPECT_FALSE(work.slot(0).residuals.areHeld());
  test::setFree(size_t{1} << 40);
  test::setCosts({{"AllReduce", 9000}, {"encode", 3000}});  // another link is examined at once
  int nHeld = 0;
  for (int i = 0; i < 2 * kSelected; ++i) {
    step(work);
    nHeld += work.slot(0).residuals.areHeld();
  }
  EXPECT_GT(nHeld, 4);
}

TEST_F(StatelessCallTest, NonFiniteValuesLeaveNoTrace) {
  test::setCosts({{"AllReduce", 900}, {"encode", 100}, {"probe", 300}});
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  takeSteps(work, kSelected);
  while (step(work) != Sending::stateless) continue;
  auto* values = static_cast<float*>(const_cast<void*>(work.part(0).call.send));
  const float kept = values[7];
  values[7] = std::numeric_limits<float>::infinity();
  ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
  EXPECT_FALSE(std::isfinite(work.received(1)[7]));
  values[7] = kept;
  for (int i = 0; i < 32; ++i) {
    step(work);
    EXPECT_TRUE(std::isfinite(work.received(1)[7]));
  }
}

// A full call leaves values that are not finite in its residuals, which the next one that has any
// must not add, whatever comes between: calls of the other kinds.
TEST_F(StatelessCallTest, NonFiniteResidualsWaitForTheNextCallThatHasThem) {
  test::setCosts({{"AllReduce", 900}, {"encode", 100}});  // a tie of many rounds
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  auto* values = static_cast<float*>(const_cast<void*>(work.part(0).call.send));
  const float kept = values[7];
  int nWaited = 0;
  bool isPoisoned = false, hasWaited = false;
  for (int i = 0; i < 3 * kSelected; ++i) {
    const bool isBad = i % 3 == 0;
    values[7] = isBad ? std::numeric_limits<float>::quiet_NaN() : kept;
    const SlotCalls before = work.slot(0).made;
    ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
    ASSERT_EQ(std::isfinite(work.received(1)[7]), !isBad) << i;
    const bool isFull = work.slot(0).made.lastFull == before.nCalls;
    if (isFull) nWaited += isPoisoned && hasWaited && !isBad;
    hasWaited = !isFull;
    isPoisoned = isFull ? isBad : isPoisoned;
  }
  EXPECT_GT(nWaited, 0);
}

}  // namespace
}  // namespace cinch
