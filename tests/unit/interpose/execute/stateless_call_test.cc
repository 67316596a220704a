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
  // How a step was sent. A full one uses the residuals.
  static Sending step(const Work& work) {
    const SlotCalls before = work.slot(0).made;
    EXPECT_EQ(test::runInGroup({&work}), ncclSuccess);
    EXPECT_EQ(work.received(0), work.received(1));
    const SlotCalls& now = work.slot(0).made;
    if (now.nCompressed == before.nCompressed) {
      EXPECT_EQ(work.errorOf(0), 0);
      return Sending::plain;
    }
    EXPECT_GT(work.errorOf(0), 0);
    return now.lastFull == before.nCalls ? Sending::full : Sending::stateless;
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
  test::setCosts({{"AllReduce", 900}, {"encode", 100}, {"probe", 300}});
  const Work work(ranks_, CallKind::allReduce, kCount);
  getReady(work);
  takeSteps(work, kSelected);
  while (step(work) != Sending::full) continue;  // audited, as the one eight calls later
  takeSteps(work, 7);
  auto* values = static_cast<float*>(const_cast<void*>(work.part(0).call.send));
  const float kept = values[7];
  values[7] = std::numeric_limits<float>::quiet_NaN();
  const uint64_t nCalls = work.slot(0).made.nCalls;
  ASSERT_EQ(test::runInGroup({&work}), ncclSuccess);
  ASSERT_EQ(work.slot(0).made.lastFull, nCalls);
  EXPECT_TRUE(std::isnan(work.received(1)[7]));
  values[7] = kept;
  for (int i = 0; i < 7; ++i) EXPECT_EQ(step(work), Sending::stateless);
  EXPECT_EQ(step(work), Sending::full);
  EXPECT_TRUE(std::isfinite(work.received(1)[7]));
}

}  // namespace
}  // namespace cinch
