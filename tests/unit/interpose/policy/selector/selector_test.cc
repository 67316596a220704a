#include "interpose/policy/selector/selector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "tests/unit/interpose/policy/selector/simulated_job.h"

namespace cinch {
namespace {

using test::kMillisecond;
using test::SimulatedJob;
using test::takes;

// So many that the means of their shares, each of which varies by 0.1, vary by less than 0.01.
constexpr int kJobs = 200;
constexpr int kSteps = 5000;

// Means over jobs whose noise and whose coins are drawn at run time.
struct Means {
  double plain = 0, full = 0, changes = 0, time = 0;  // time: of a plain job's
};

Means meansOf(double stateless, double full, double noise, int nSteps = kSteps, double spikes = 0) {
  std::random_device device;
  Means means;
  for (int i = 0; i < kJobs; ++i) {
    SimulatedJob* self = nullptr;
    SimulatedJob job(
        {.seed = device(), .hasStateless = true},
        [&, time = takes(stateless, full)](const StepMode& mode) {
          return time(mode) * (self->drawn() < spikes ? 5 : 1);
        },
        noise);
    self = &job;
    job.steps(nSteps);
    means.plain += job.share(Sending::plain) / kJobs;
    means.full += job.share(Sending::full) / kJobs;
    means.changes += static_cast<double>(job.selector.summary().nChanges) / kJobs;
    for (const Sending sending : {Sending::plain, Sending::stateless, Sending::full})
      means.time +=
          job.share(sending) * takes(stateless, full)({sending}) / (200 * kMillisecond) / kJobs;
  }
  return means;
}

TEST(Selector, StaysPlainWhereThatIsFaster) {
  for (const double noise : {0.03, 0.2, 0.5}) {
    const Means means = meansOf(1.1, 1.1, noise);
    RecordProperty("plain_share", std::to_string(means.plain));  // the last one's is reported
    RecordProperty("changes", std::to_string(means.changes));
    EXPECT_GE(means.plain, 0.93) << noise;
    EXPECT_LE(means.changes, 3) << noise;
  }
}

TEST(Selector, FindsAGainOfTenPercent) {
  for (const double noise : {0.03, 0.2}) {
    const Means means = meansOf(0.9, 0.9, noise);
    RecordProperty("compressed_share", std::to_string(1 - means.plain));
    EXPECT_LE(means.plain, 0.1) << noise;
    EXPECT_LE(means.changes, 3) << noise;
  }
}

TEST(Selector, PrefersFullWhereThatIsFasterStill) {
  EXPECT_GE(meansOf(0.9, 0.8, 0.2).full, 0.8);
}

// One period in ten takes five times as long.
TEST(Selector, IsNotLedAstrayBySpikes) {
  EXPECT_LE(meansOf(0.33, 0.33, 0.1, kSteps, 0.1).plain, 0.05);
  EXPECT_GE(meansOf(1.3, 1.3, 0.1, kSteps, 0.1).plain, 0.93);
}

// Examinations included, in a job of 400 steps.
TEST(Selector, CostsAtMostFourPercent) {
  for (const double ratio : {1.02, 1.1, 1.2, 1.5, 2.0, 4.0})
    for (const double noise : {0.02, 0.1, 0.3})
      EXPECT_LE(meansOf(ratio, ratio, noise, 400).time, 1.04) << ratio << " " << noise;
}

// A checkpoint, or the turn of an epoch: one period in a hundred takes 20 s longer.
TEST(Selector, APauseIsNoDrift) {
  std::random_device device;
  for (int i = 0; i < 20; ++i) {
    uint64_t n = 0;
    SimulatedJob job(
        {.seed = device(), .hasStateless = true},
        [&, time = takes(1.2, 1.2)](const StepMode& mode) {
          return time(mode) + (++n % 100 == 0 ? 20'000 * kMillisecond : 0);
        },
        0.03);
    job.steps(kSteps);
    EXPECT_LE(job.selector.summary().nExaminations, 12u);
    EXPECT_GE(job.share(Sending::plain), 0.97);
  }
}

TEST(Selector, FindsASmallGainBesidePauses) {
  std::random_device device;
  double compressed = 0;
  for (int i = 0; i < 40; ++i) {
    uint64_t n = 0;
    SimulatedJob job(
        {.seed = device(), .hasStateless = true},
        [&, time = takes(0.93, 0.93)](const StepMode& mode) {
          return time(mode) + (++n % 100 == 0 ? 20'000 * kMillisecond : 0);
        },
        0.1);
    job.steps(kSteps);
    compressed += (1 - job.share(Sending::plain)) / 40;
  }
  EXPECT_GE(compressed, 0.85);
}

// From 1 Gbit/s, where compressing is no use, to 50 Mbit/s.
TEST(Selector, FollowsALinkWithinFortySteps) {
  std::random_device device;
  int slowest = 0;
  for (int i = 0; i < kJobs; ++i) {
    double wire = 200 * kMillisecond, codec = 250 * kMillisecond;
    SimulatedJob job(
        {.seed = device(), .hasStateless = true},
        [&](const StepMode& mode) {
          if (mode.sending == Sending::plain) return wire + 50 * kMillisecond;
          return wire / (mode.sending == Sending::stateless ? 4 : 5) + codec;
        },
        0.05);
    job.steps(600);
    ASSERT_EQ(job.selector.summary().mode.sending, Sending::plain);
    wire *= 20;
    int nSteps = 0;
    while (job.selector.summary().mode.sending == Sending::plain && nSteps < 1000) {
      job.step();
      ++nSteps;
    }
    EXPECT_LE(nSteps, 40);
    slowest = std::max(slowest, nSteps);
    job.steps(40);
    wire /= 20;
    nSteps = 0;
    while (job.selector.summary().mode.sending != Sending::plain && nSteps < 1000) {
      job.step();
      ++nSteps;
    }
    EXPECT_LE(nSteps, 60);
  }
  RecordProperty("adapt_steps", slowest);
}

TEST(Selector, TriesWhatIsFarSlowerForTwoPeriods) {
  SimulatedJob job({.seed = 1, .hasStateless = true}, takes(30, 30), 0.02);
  job.steps(200);
  EXPECT_EQ(job.counts[static_cast<size_t>(Sending::stateless)], 2u);
  EXPECT_EQ(job.counts[static_cast<size_t>(Sending::full)], 0u)
      << "tried only where stateless is within 25 % of plain";
}

TEST(Selector, HasNoStatelessWhereThereIsNone) {
  SimulatedJob job({.seed = 1}, takes(0.5, 0.9), 0.02);
  job.steps(400);
  EXPECT_EQ(job.counts[static_cast<size_t>(Sending::stateless)], 0u);
  EXPECT_EQ(job.selector.summary().mode.sending, Sending::full);
}

TEST(Selector, TriesThresholdsOnce) {
  constexpr uint64_t kMiB = 1 << 20;
  int nWithThreshold = 0;
  SimulatedJob job(
      {.seed = 1, .hasStateless = true, .thresholds = {kMiB, 8 * kMiB}},
      [&](const StepMode& mode) {
        const double small = mode.minBytes == 0 ? 40 : 20;  // which plain is faster for
        const double large = mode.minBytes == 8 * kMiB ? 80 : 40;
        nWithThreshold += mode.minBytes == 8 * kMiB;
        return (mode.sending == Sending::plain ? 120 : small + large) * kMillisecond;
      },
      0.02);
  job.steps(1000);
  EXPECT_EQ(job.selector.summary().mode.minBytes, kMiB);
  EXPECT_NE(job.selector.summary().mode.sending, Sending::plain);
  const int nTried = nWithThreshold;
  EXPECT_GT(nTried, 0);
  job.steps(4000);
  EXPECT_EQ(nWithThreshold, nTried);
}

// Residuals are asked for when full is first tried, and held while it is tried or sent.
TEST(Selector, HoldsResidualsWhereFullIsTriedOrSent) {
  SimulatedJob far({.seed = 1, .hasStateless = true, .hasResiduals = true}, takes(30, 30), 0.02);
  far.steps(2000);
  EXPECT_EQ(far.nAsked(), 0u) << "full is not tried";

  SimulatedJob wins({.seed = 1, .hasStateless = true, .hasResiduals = true}, takes(0.9, 0.8), 0.02);
  wins.steps(2000);
  EXPECT_EQ(wins.selector.summary().mode.sending, Sending::full);
  EXPECT_EQ(wins.nAsked(), 1u);
  EXPECT_TRUE(wins.selector.residuals().areHeld);

  for (const double stateless : {0.8, 1.1}) {
    SimulatedJob loses({.seed = 1, .hasStateless = true, .hasResiduals = true},
                       takes(stateless, 1.15), 0.02);
    loses.steps(2000);
    EXPECT_NE(loses.selector.summary().mode.sending, Sending::full);
    EXPECT_GE(loses.nAsked(), 2u) << "again in each examination";
    EXPECT_LE(loses.nAsked(), loses.selector.summary().nExaminations);
    EXPECT_FALSE(loses.selector.residuals().areHeld);
    EXPECT_LE(loses.nHolding, 200u);
  }
}

TEST(Selector, SendsNothingFullWithoutMemory) {
  SimulatedJob job({.seed = 1, .hasStateless = true, .hasResiduals = true}, takes(0.8, 0.5), 0.02);
  job.haveMemory = false;
  job.steps(2000);
  EXPECT_EQ(job.counts[static_cast<size_t>(Sending::full)], 0u);
  EXPECT_EQ(job.selector.summary().mode.sending, Sending::stateless);
  EXPECT_GE(job.nAsked(), 2u);
  job.haveMemory = true;
  job.steps(20000);
  EXPECT_EQ(job.selector.summary().mode.sending, Sending::full);
}

// Calls that get ready once full is sent are asked for with the next examination; what was held
// stays so, whatever the answer.
TEST(Selector, AsksForWhatLacksResidualsBesideThoseThatAreHeld) {
  SimulatedJob job({.seed = 1, .hasStateless = true, .hasResiduals = true}, takes(0.9, 0.8), 0.02);
  job.steps(300);
  const Selector::Residuals before = job.selector.residuals();
  ASSERT_TRUE(before.areHeld);
  EXPECT_TRUE(before.hold(before.question));
  job.shape.lacksResiduals = true;
  job.haveMemory = false;
  job.steps(2000);
  const Selector::Residuals refused = job.selector.residuals();
  EXPECT_GT(refused.question, before.question);
  EXPECT_TRUE(refused.hold(before.question));
  EXPECT_FALSE(refused.hold(refused.question));
  job.haveMemory = true;
  job.steps(20000);
  const Selector::Residuals all = job.selector.residuals();
  EXPECT_TRUE(all.hold(before.question) && all.hold(all.question));
  EXPECT_EQ(job.selector.summary().mode.sending, Sending::full);
}

TEST(Selector, AnUnansweredQuestionLeavesTheIncumbent) {
  SimulatedJob job({.seed = 1, .hasStateless = true, .hasResiduals = true}, takes(0.8, 0.5), 0.02);
  job.haveMemory.reset();
  job.steps(5000);
  EXPECT_EQ(job.selector.summary().mode.sending, Sending::stateless);
  EXPECT_EQ(job.counts[static_cast<size_t>(Sending::full)], 0u);
  EXPECT_FALSE(job.selector.residuals().areHeld);
}

// Loops of short calls: a sample is as many as take 25 ms.
TEST(Selector, TimesManyShortPeriodsTogether) {
  SimulatedJob job(
      {.seed = 1, .hasStateless = true},
      [](const StepMode& mode) {
        return mode.sending == Sending::plain ? 0.05 * kMillisecond : 0.08 * kMillisecond;
      },
      0.3);
  job.steps(200'000);
  EXPECT_GE(job.share(Sending::plain), 0.99);
  EXPECT_LE(job.selector.summary().nExaminations, 10u);
}

TEST(Selector, StaysWhereItIsWithoutTimings) {
  SimulatedJob job({.seed = 1, .hasStateless = true}, takes(0.5, 0.4), 0.02);
  job.losesAll = true;
  job.steps(500);
  EXPECT_EQ(job.share(Sending::plain), 1);
  job.losesAll = false;
  job.steps(500);
  EXPECT_EQ(job.selector.summary().mode.sending, Sending::full);
  job.latency = 1'000'000;
  job.steps(300);  // with the end of a comparison that was under way
  job.counts = {};
  job.steps(1000);
  EXPECT_EQ(job.counts[static_cast<size_t>(Sending::full)], 1000u)
      << "the last decision stays in force";
}

TEST(Selector, AwaitsNoMoreThanItHasRoomFor) {
  SimulatedJob job({.seed = 1, .hasStateless = true}, takes(0.5, 0.4), 0.02);
  job.latency = 1'000'000;
  job.steps(5000);
  EXPECT_NE(job.selector.awaited()[0], kNoBlock);
  EXPECT_EQ(job.share(Sending::plain), 1);
  job.selector.receive(12345, {});  // unknown
}

// Programs that enqueue far ahead of the device get their timings late.
TEST(Selector, WorksWithLateTimings) {
  SimulatedJob job({.seed = 1, .hasStateless = true}, takes(0.9, 0.8), 0.1);
  job.latency = 100;
  job.steps(5000);
  EXPECT_EQ(job.selector.summary().mode.sending, Sending::full);
}

// Whatever comes back, in whatever order, and however much is missing: a copy that is told the same
// does the same, and no more is awaited than there is room for.
TEST(Selector, IsTheSameOnAllRanksWhateverComesBack) {
  std::mt19937_64 random(std::random_device{}());
  for (int job = 0; job < 300; ++job) {
    const Selector::Options options{.seed = random(),
                                    .firstBlock = random() % 1000,
                                    .hasStateless = random() % 2 == 0,
                                    .hasResiduals = random() % 2 == 0,
                                    .thresholds = {random() % 2 << 20, random() % 2 << 23}};
    Selector one(options), other(options);
    for (int i = 0; i < 3000; ++i) {
      const auto a = one.next(), b = other.next();
      ASSERT_EQ(a.mode, b.mode);
      ASSERT_EQ(a.block, b.block);
      ASSERT_EQ(a.sample, b.sample);
      ASSERT_TRUE(a.mode.sending != Sending::stateless || options.hasStateless);
      ASSERT_TRUE(a.mode.minBytes == 0 || a.mode.sending != Sending::plain);
      ASSERT_EQ(one.residuals().isAsked, other.residuals().isAsked);
      ASSERT_TRUE(!options.hasResiduals || a.mode.sending != Sending::full ||
                  one.residuals().areHeld);
      if (random() % 8 == 0) {
        const bool haveMemory = random() % 4 != 0;
        one.answer(haveMemory);
        other.answer(haveMemory);
      }
      for (const uint64_t block : one.awaited()) {
        if (block == kNoBlock || random() % 3 == 0) continue;
        std::vector<uint64_t> timings(random() % 5 == 0 ? random() % 8 : kBlockSamples);
        for (uint64_t& timing : timings)
          timing =
              random() % 9 == 0 ? (random() % 2 == 0 ? kNotTimed : 0) : random() >> (random() % 64);
        one.receive(block, timings);
        other.receive(block, timings);
      }
    }
    EXPECT_EQ(one.summary().mode, other.summary().mode);
  }
}

}  // namespace
}  // namespace cinch
