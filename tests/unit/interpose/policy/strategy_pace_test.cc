// Programs that do little else than call: what a call takes them is known better than from its
// ranks' times.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "tests/unit/interpose/policy/strategy_job.h"

namespace cinch {
namespace {

constexpr uint64_t kPlain = 550 * kMicrosecond, kCompressed = 117 * kMicrosecond,
                   kQuick = 146 * kMicrosecond;

uint64_t timeOf(Strategy done) {
  return done == Strategy::pass ? kPlain : done == Strategy::quick ? kQuick : kCompressed;
}

// Where the link is what quick calls wait for, what one rank is late in a call it has less of in
// the next: 64 KiB of bf16 between two hosts, 1 Gbit/s.
uint64_t seenByTheLuckier(Strategy done, uint64_t time) {
  return done == Strategy::quick ? time * 3 / 4 : time;
}

TEST(StrategyPace, RanksThatAreLateInTurnHideNothing) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    std::lognormal_distribution<double> noise(0, 0.05);
    Job job(
        [&](uint64_t, Strategy done) {
          return static_cast<uint64_t>(static_cast<double>(timeOf(done)) * noise(random));
        },
        true);
    job.seen = seenByTheLuckier;
    job.passes(100 * kRound);
    EXPECT_EQ(job.chooser.choice(), Strategy::compress) << seed;
  }
}

// What is faster, whatever the ranks say.
TEST(StrategyPace, QuickCallsAreDoneWhereTheyAreFaster) {
  Job job(
      [](uint64_t, Strategy done) {
        return done == Strategy::pass ? kPlain : done == Strategy::quick ? kCompressed : kQuick;
      },
      true);
  job.passes(100 * kRound);
  EXPECT_EQ(job.chooser.choice(), Strategy::quick);
}

// There the ranks' times are all there is to go by.
TEST(StrategyPace, OfAProgramThatDoesOtherThingsTheCallsCount) {
  Job job([](uint64_t, Strategy done) { return timeOf(done); }, true);
  job.seen = seenByTheLuckier;
  job.pause = kMillisecond;
  job.passes(100 * kRound);
  EXPECT_EQ(job.chooser.choice(), Strategy::quick);
  EXPECT_EQ(job.chooser.time(Strategy::compress), kCompressed);
}

// A pause now and then makes a round long in which a strategy is tried, and says nothing of it.
TEST(StrategyPace, APauseInATrialIsNotTheStrategys) {
  for (uint64_t paused = 0; paused < 30 * kRound; ++paused) {
    Job job([](uint64_t, Strategy done) { return timeOf(done); }, true);
    for (; job.turn() < 100 * kRound; job.step())
      job.pause = job.turn() == paused ? 50 * kMillisecond : 0;
    EXPECT_EQ(job.chooser.choice(), Strategy::compress) << paused;
    EXPECT_LE(job.chooser.time(Strategy::compress), kCompressed) << paused;
  }
}

// Whose calls then are told by other figures: nothing has drifted.
TEST(StrategyPace, PausesInSomeRoundsAreNoDrift) {
  Job job([](uint64_t, Strategy done) { return timeOf(done); }, true);
  job.seen = [](Strategy, uint64_t time) { return time * 2 / 3; };
  job.passes(100 * kRound);
  const uint64_t before = job.chooser.nTrials();
  // Of rounds that are heard of far apart, between trials, two have a pause, and two have none.
  uint64_t last = 0, n = 0;
  job.periodOf = [&](uint64_t round, uint64_t period) {
    const bool isAlone = round > std::exchange(last, round) + 10;
    return isAlone && ++n % 4 < 2 ? 2 * period : period;
  };
  job.passes(4000 * kRound);
  EXPECT_LE(job.chooser.nTrials() - before, 15u);
}

// Compressed calls leave the link a store that lasts quick ones for most of a round.
TEST(StrategyPace, WhatCompressedCallsLeaveIsNotTheQuickOnes) {
  for (const double store : {60e3, 120e3, 250e3}) {
    double stored = store;
    Job job(
        [&](uint64_t, Strategy done) {
          const double bytes = done == Strategy::pass    ? 67e3
                               : done == Strategy::quick ? 18e3
                                                         : 13e3;
          const double alone = done == Strategy::pass    ? 200e3
                               : done == Strategy::quick ? 80e3
                                                         : 117e3;
          // 1 Gbit/s
          const double time = std::max(alone, (bytes - stored) * 8);
          stored = std::min(stored + time / 8, store) - bytes;
          return static_cast<uint64_t>(time);
        },
        true);
    job.passes(200 * kRound);
    uint64_t nQuick = 0;
    for (uint64_t i = 0; i < 2000 * kRound; ++i) nQuick += job.step() == Strategy::quick;
    EXPECT_LE(nQuick, 2000 * kRound / 10) << store;
  }
}

// It enqueues rounds in no time, and then waits.
TEST(StrategyPace, AProgramThatIsAheadHasNone) {
  Job job([](uint64_t, Strategy done) { return timeOf(done); }, true);
  job.periodOf = [](uint64_t round, uint64_t) {
    return round % 4 == 3 ? 4 * kRound * kQuick : kRound * kMicrosecond;
  };
  job.passes(200 * kRound);
  EXPECT_EQ(job.chooser.choice(), Strategy::compress);
}

}  // namespace
}  // namespace cinch
