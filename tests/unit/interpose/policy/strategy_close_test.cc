// Calls that are short, and strategies that are near a tie.
#include "tests/unit/interpose/policy/strategy_job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace cinch {
namespace {

// A connection that was idle takes some calls to be as fast as it can be: plain ones take `cold`,
// from the fourth in a row on `warm`.
Job coldJob(uint64_t others, uint64_t cold, uint64_t warm) {
  return Job([=, last = Strategy::pass, inARow = 0](uint64_t, Strategy done) mutable {
    inARow = done == last ? inARow + 1 : 0;
    last = done;
    return done != Strategy::pass ? others : inARow < 3 ? cold : warm;
  });
}

// Pools of the round before fall into a round's first turns.
TEST(Strategy, PlainCallsAreNotHeldBackByPools) {
  for (const bool isPlainFaster : {true, false}) {
    Job job([=](uint64_t turn, Strategy done) {
      const uint64_t fast = 54 * kMicrosecond, slow = 80 * kMicrosecond;
      const uint64_t pool = turn % kRound < 3 ? 40 * kMicrosecond : 0;
      return ((done == Strategy::pass) == isPlainFaster ? fast : slow) + pool;
    });
    job.passes(100 * kRound);
    EXPECT_EQ(job.chooser.choice(), isPlainFaster ? Strategy::pass : Strategy::compress);
  }
}

// Between plain calls and others that are close, idle connections decide else: of 16 MiB on four
// ranks plain calls took 55 ms in trials, and 45 ms over and over.
TEST(Strategy, WhatIsCloseToPlainIsTriedForARound) {
  Job job = coldJob(50 * kMillisecond, 55 * kMillisecond, 45 * kMillisecond);
  job.passes(20 * kRound);
  EXPECT_EQ(job.chooser.choice(), Strategy::pass);
  EXPECT_GE(job.passes(1000 * kRound), 950 * kRound);
}

// Compressed calls leave to a link's store what plain ones in a trial are fast by, and a round is
// not enough to use it up: 64 KiB between two hosts of two ranks, 1 Gbit/s.
TEST(Strategy, WhatTakesLongerAfterItsTrialIsNotChosenForEver) {
  constexpr double kStore = 4000;
  double stored = kStore;
  Job job([&](uint64_t, Strategy done) -> uint64_t {
    const bool isPlain = done == Strategy::pass;
    const double alone = isPlain ? 450 : 520, sent = isPlain ? 800 : 200;
    const double time = std::max(alone, sent - stored);
    stored = std::min(stored + time, kStore) - sent;
    return static_cast<uint64_t>(time * kMicrosecond);
  });
  job.passes(100 * kRound);
  EXPECT_LE(job.passes(2000 * kRound), 300 * kRound);
}

// A program to which compressing is no use is to notice nothing of it.
TEST(Strategy, TrialsThatChangeNothingBecomeRare) {
  Job job = steadyJob(500 * kMicrosecond, 600 * kMicrosecond);
  job.passes(2000 * kRound);  // 8 s
  EXPECT_EQ(job.chooser.choice(), Strategy::pass);
  EXPECT_GE(job.passes(10000 * kRound), 9900 * kRound);
}

TEST(Strategy, ShortCallsAreTriedForARound) {
  Job job = coldJob(75 * kMicrosecond, 110 * kMicrosecond, 70 * kMicrosecond);
  job.passes(200 * kRound);
  EXPECT_EQ(job.chooser.choice(), Strategy::pass);
  EXPECT_GE(job.passes(2000 * kRound), 1900 * kRound);
}

TEST(Strategy, AFewMicrosecondsAreNoGain) {
  for (const uint64_t pass : {75u, 84u}) {
    Job job = steadyJob(pass * kMicrosecond, 70 * kMicrosecond);
    job.passes(100 * kRound);
    EXPECT_EQ(job.chooser.choice(), pass < 80 ? Strategy::pass : Strategy::compress);
  }
  uint64_t pass = 150 * kMicrosecond;
  Job job(
      [&](uint64_t, Strategy done) { return done == Strategy::pass ? pass : 70 * kMicrosecond; });
  for (const auto& [now, choice] : {std::pair{150u, Strategy::compress},
                                    {76u, Strategy::compress},
                                    {70u, Strategy::pass},
                                    {76u, Strategy::pass}}) {
    pass = now * kMicrosecond;
    job.passes(3000 * kRound);  // what is done takes as long: a trial comes when its time has come
    EXPECT_EQ(job.chooser.choice(), choice) << now;
  }
}

// What the slot's first turns took beside connections that are made does not decide.
TEST(Strategy, OfShortCallsTheFirstTrialSaysLittle) {
  Job job([](uint64_t turn, Strategy done) {
    if (done != Strategy::pass) return 70 * kMicrosecond;
    return (turn < kRound ? 300 : 54) * kMicrosecond;
  });
  job.passes(100 * kRound);
  EXPECT_EQ(job.chooser.choice(), Strategy::pass);
}

TEST(Strategy, OfOthersItSaysLittleWherePlainCallsAreNotFarSlower) {
  Job job([](uint64_t turn, Strategy done) {
    if (done != Strategy::pass) return 60 * kMillisecond;
    return (turn < kRound ? 90 : 57) * kMillisecond;
  });
  job.passes(100 * kRound);
  EXPECT_EQ(job.chooser.choice(), Strategy::pass);
}

TEST(Strategy, NorIsItsChoiceWhatOthersAreHeldAgainst) {
  Job job([](uint64_t turn, Strategy done) {
    if (done != Strategy::pass) return 488 * kMicrosecond;
    return (turn < kRound ? 2000 : 480) * kMicrosecond;
  });
  job.passes(100 * kRound);
  EXPECT_EQ(job.chooser.choice(), Strategy::pass);
}

}  // namespace
}  // namespace cinch
