// Programs whose hosts are ahead of their devices, so that rounds are heard late.
#include <gtest/gtest.h>

#include "tests/unit/interpose/policy/strategy_job.h"

namespace cinch {
namespace {

TEST(StrategyLate, CallsThatEndLateAreHeardLate) {
  for (const uint64_t ahead : {1, 20, 40, 60, 100}) {
    Job job = steadyJob(1000, 3000);
    job.ahead = ahead;
    job.passes(100 * kRound);
    EXPECT_GT(job.passes(100 * kRound), 95 * kRound) << ahead;
    EXPECT_EQ(job.chooser.choice(), Strategy::pass) << ahead;
  }
}

// The first trial says little, and the second one is lost: plain calls are done until there is
// another.
TEST(StrategyLate, ALostSecondTrialIsRepeatedSoon) {
  for (uint64_t lost = 2 * kRound; lost < 6 * kRound; ++lost) {
    Job job = steadyJob(3 * kMillisecond, 100 * kMicrosecond);
    job.passes(lost);
    job.failsToPool = true;
    job.passes(3 * kRound);
    job.failsToPool = false;
    EXPECT_LT(job.passes(100 * kRound), 25 * kRound) << lost;
    EXPECT_EQ(job.chooser.choice(), Strategy::compress) << lost;
  }
}

// What was fast in its trial for what the link had saved up, and is slower than plain calls.
TEST(StrategyLate, WhatIsSlowerThanInItsTrialIsDoubted) {
  for (const uint64_t ahead : {0u, 20u, 40u, 60u, 100u}) {
    uint64_t nAlike = 0;
    Job job([&](uint64_t, Strategy done) {
      if (done == Strategy::pass) return (nAlike = 0, 10 * kMillisecond);
      return ++nAlike <= 8 ? 3 * kMillisecond : 14 * kMillisecond;
    });
    job.ahead = ahead;
    job.passes(100 * kRound);
    EXPECT_GT(job.passes(300 * kRound), 200 * kRound) << ahead;
  }
}

}  // namespace
}  // namespace cinch
