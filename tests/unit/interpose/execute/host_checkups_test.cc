// Calls that are summed inside the hosts first and examined: CINCH_GUARD_EVERY=4, CINCH_CODEC=auto;
// in one chunk or, with CINCH_CHUNKS=3, in three.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/interpose/support/job.h"

namespace cinch {
namespace {

using test::fakeReal;
using test::Placement;
using test::runInGroup;
using test::Work;

// Some hundred tiles, whose values differ in size from tile to tile: layers want other precisions.
constexpr size_t kCount = 300 * 1024 + 77;

class HostCheckups : public test::JobTest {
 protected:
  void TearDown() override { EXPECT_TRUE(fakeReal().isIdle()); }

  static void makeUneven(const Work& work) {
    for (int rank = 0; rank < work.nRanks(); ++rank) {
      auto* const values = static_cast<float*>(const_cast<void*>(work.part(rank).call.send));
      for (size_t i = 0; i < kCount; ++i)
        values[i] *= std::pow(10.0f, static_cast<float>(i / 20000 % 5) - 2.0f);
    }
  }
};

TEST_F(HostCheckups, ChangeThePrecisionOfEveryLaneAndLeaveTheBitsAlike) {
  for (const Placement& hosts : {Placement{0, 0, 1, 1}, {0, 0, 0, 1}, {0, 1, 1, 0, 1}}) {
    SCOPED_TRACE(testing::PrintToString(hosts));
    const test::TestRanks ranks = test::makeRanks(hosts);
    const Work work(ranks, CallKind::allReduce, kCount);
    makeUneven(work);
    getReady(work);
    for (int call = 0; call < 40; ++call) {
      ASSERT_EQ(runInGroup({&work}), ncclSuccess);
      for (int rank = 1; rank < work.nRanks(); ++rank)
        ASSERT_EQ(work.received(rank), work.received(0)) << "rank " << rank << " call " << call;
      ASSERT_LT(work.errorOf(0), 0.15) << "call " << call;
    }
    const SlotStats& stats = *work.slot(0).stats;
    EXPECT_GE(stats.guard.checks.load(), 4u);
    EXPECT_EQ(stats.guard.breaches.load(), 0u);
    EXPECT_NEAR(stats.guard.nmse.load(), work.errorOf(0), 0.7 * work.errorOf(0));
    for (int rank = 0; rank < work.nRanks(); ++rank) {
      EXPECT_GE(work.slot(rank).stats->plans.load(), 1u);
      EXPECT_EQ(ranks[static_cast<size_t>(rank)]->comm->health(), ncclSuccess);
    }
    EXPECT_TRUE(work.slot(0).planInForce().layout.isMixed());
    test::awaitBackground(ranks);
  }
}

}  // namespace
}  // namespace cinch
