#include "interpose/policy/strategy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "tests/unit/interpose/policy/strategy_job.h"

namespace cinch {
namespace {

// The link's share of a call, and the codec's.
struct Link {
  double microseconds;  // of the plain call
  uint64_t pass() const { return static_cast<uint64_t>(microseconds * 1e3); }
  uint64_t compress() const { return pass() / 8 + 300 * kMicrosecond; }
};

TEST(Strategy, TheFasterIsDoneAfterTwoRounds) {
  Job slow = steadyJob(10 * kMillisecond, 2 * kMillisecond);
  EXPECT_EQ(slow.passes(2), 2u) << "the ranks get ready";
  EXPECT_EQ(slow.passes(1), 1u) << "the trial goes on";
  EXPECT_EQ(slow.passes(300), 0u);
  EXPECT_EQ(slow.chooser.choice(), Strategy::compress);
  EXPECT_EQ(slow.chooser.time(Strategy::pass), 10 * kMillisecond);
  EXPECT_EQ(slow.chooser.time(Strategy::compress), 2 * kMillisecond);

  Job fast = steadyJob(1 * kMillisecond, 4 * kMillisecond);
  fast.passes(2 * kRound);
  EXPECT_EQ(fast.passes(300), 300u);
  EXPECT_EQ(fast.chooser.choice(), Strategy::pass);
}

// Short calls vary, but not by that much; and where pools are heard late, plain calls would be
// many.
TEST(Strategy, ShortCallsAreDoneAtOnceWherePlainOnesAreLong) {
  for (const uint64_t plain : {8 * kMillisecond, 42 * kMillisecond}) {
    Job job = steadyJob(plain, 400 * kMicrosecond);
    job.passes(3);
    EXPECT_EQ(job.passes(300), 0u) << plain;
  }
}

// The first trial does not count where it only says that plain calls are not far slower.
TEST(Strategy, WhatIsCloseIsTriedAgain) {
  for (const auto& [compress, nTrials] :
       {std::pair{970u, 3u}, {810u, 1 + 3u}, {700u, 1 + 3u}, {600u, 1 + 1u}, {450u, 1u}}) {
    Job close = steadyJob(10000 * kMicrosecond, 10 * compress * kMicrosecond);
    close.passes(40 * kRound);
    const bool isWorthIt = compress < 950;
    EXPECT_EQ(close.passes(20 * kRound), isWorthIt ? 0 : 20 * kRound) << compress;
    EXPECT_EQ(close.chooser.nTrials(), nTrials) << compress;
  }
}

TEST(Strategy, BetweenCloseTrialsIsARoundOfWhatIsDone) {
  Job close = steadyJob(1000 * kMicrosecond, 970 * kMicrosecond);
  close.passes(3 * kRound);  // plain calls are new, and done before they are tried again
  for (int trial = 0; trial < 2; ++trial) {
    EXPECT_EQ(close.passes(kRound), 0u) << trial;
    EXPECT_EQ(close.passes(kRound), kRound) << trial;
    EXPECT_EQ(close.passes(kRound), kRound) << trial << ", what is done";
  }
}

// Else a pool in two would do what is not faster, and in the end all do what they did.
TEST(Strategy, WhatWasSettledOnIsDoneUntilASeriesIsOver) {
  std::mt19937 random(11);
  std::lognormal_distribution<double> noise(0, 0.1);
  Job job([&](uint64_t, Strategy done) {
    return static_cast<uint64_t>((done == Strategy::pass ? 1.0e7 : 1.1e7) * noise(random));
  });
  job.passes(40 * kRound);
  ASSERT_EQ(job.chooser.choice(), Strategy::pass);
  const uint64_t trialsBefore = job.chooser.nTrials(), passes = job.passes(400 * kRound);
  const uint64_t nTrials = job.chooser.nTrials() - trialsBefore;
  EXPECT_GE(nTrials, 12u);
  // Of a series a trial passes in 3 turns of 8, and one more, of whole rounds, in all of one.
  EXPECT_LE(2 * (400 * kRound - passes), (5 + kRound) * nTrials);
}

// Calls of which plain ones can never be timed, as those that NCCL has not launched yet.
TEST(Strategy, WhatNobodyCanTimeIsNotTriedForEver) {
  Job job(
      [](uint64_t, Strategy done) { return done == Strategy::pass ? kNotTimed : kMillisecond; });
  job.passes(200 * kRound);
  EXPECT_LE(job.passes(1000 * kRound), 3u * 1000 / 64);
}

// Plain, compressed and quick calls of a slot that may make all three.
Job threeWays(uint64_t pass, uint64_t compress, uint64_t quick) {
  return Job(
      [=](uint64_t, Strategy done) {
        return done == Strategy::pass ? pass : done == Strategy::quick ? quick : compress;
      },
      true);
}

TEST(Strategy, OfThreeTheFastestIsDone) {
  const uint64_t times[] = {1 * kMillisecond, 3 * kMillisecond, 9 * kMillisecond};
  uint64_t order[] = {0, 1, 2};
  do {
    Job job = threeWays(times[order[0]], times[order[1]], times[order[2]]);
    const auto fastest = static_cast<Strategy>(std::find(order, order + 3, 0u) - order);
    const bool isQuick = fastest == Strategy::quick;  // which is tried twice
    for (uint64_t turn = 0; turn < (isQuick ? 4 : 2) * kRound; ++turn) job.step();
    for (int turn = 0; turn < 300; ++turn) ASSERT_EQ(job.step(), fastest);
    EXPECT_EQ(job.chooser.nTrials(), isQuick ? 2u : 1u);
    for (size_t i = 0; i < kStrategies; ++i)
      EXPECT_EQ(job.chooser.time(static_cast<Strategy>(i)), times[order[i]]);
  } while (std::next_permutation(order, order + 3));
}

// Trials follow one another for the two that are close.
TEST(Strategy, PlainCallsThatAreFarSlowerAreTriedOnce) {
  for (const uint64_t quick : {8u, 10u, 12u}) {
    Job job = threeWays(100 * kMillisecond, 10 * kMillisecond, quick * kMillisecond);
    EXPECT_EQ(job.passes(40 * kRound), 3u) << quick;
    EXPECT_GE(job.chooser.nTrials(), 3u);
  }
  Job close = threeWays(1200 * kMicrosecond, 1000 * kMicrosecond, 1000 * kMicrosecond);
  EXPECT_GE(close.passes(40 * kRound), 3 * 3u);
}

TEST(Strategy, QuickCallsAreMadeOnlyWhereTheyMayBe) {
  std::mt19937_64 random(3);
  Job job([&](uint64_t, Strategy) { return random() % 100000; });
  for (int turn = 0; turn < 2000; ++turn) ASSERT_NE(job.step(), Strategy::quick);
}

// Nor in a series that goes on between the others, which are close.
TEST(Strategy, WhatIsDroppedInALaterSeriesIsNotDoneAgain) {
  uint64_t nInASeries = 0;
  for (uint64_t dropAt = 60 * kRound; dropAt < 90 * kRound; ++dropAt) {
    Job job = threeWays(12'000 * kMicrosecond, 11'500 * kMicrosecond, 10'000 * kMicrosecond);
    while (job.turn() < dropAt) job.step();
    ASSERT_EQ(job.chooser.choice(), Strategy::quick);
    const uint64_t nTrials = job.chooser.nTrials();
    job.chooser.dropQuick();
    for (int turn = 0; turn < 400; ++turn) ASSERT_NE(job.step(), Strategy::quick) << dropAt;
    nInASeries += job.chooser.nTrials() > nTrials;
  }
  EXPECT_GT(nInASeries, 0u);
}

// As a group does that NCCL refuses, after its later calls were heard of.
TEST(Strategy, ATurnThatIsRepeatedDoesWhatItDid) {
  for (uint64_t dropAt = 60 * kRound + 1; dropAt < 90 * kRound; ++dropAt) {
    Job job = threeWays(12'000 * kMicrosecond, 11'500 * kMicrosecond, 10'000 * kMicrosecond);
    while (job.turn() < dropAt) job.step();
    job.chooser.dropQuick();
    std::vector<Strategy> done;
    for (uint64_t turn = 0; turn < 2 * kRound; ++turn) done.push_back(job.step());
    for (uint64_t turn = 0; turn < 2 * kRound; ++turn)
      ASSERT_EQ(job.chooser.at(dropAt + turn), done[turn]) << dropAt << " + " << turn;
  }
}

// Wherever it happens, in a trial or between them; and what was faster of the others is done.
TEST(Strategy, WhatIsDroppedIsNotDoneAgain) {
  for (const bool passes : {false, true})
    for (uint64_t dropAt = 1; dropAt < 6 * kRound; ++dropAt) {
      Job job(
          [=](uint64_t, Strategy done) {
            if (done == Strategy::quick) return 1 * kMillisecond;
            return (done == Strategy::pass) == passes ? 3 * kMillisecond : 9 * kMillisecond;
          },
          true);
      while (job.turn() < dropAt) job.step();
      job.chooser.dropQuick();
      for (int turn = 0; turn < 50; ++turn) EXPECT_NE(job.step(), Strategy::quick) << dropAt;
      EXPECT_EQ(job.chooser.choice(), passes ? Strategy::pass : Strategy::compress) << dropAt;
      uint64_t nPasses = job.passes(400);
      EXPECT_LE(passes ? 400 - nPasses : nPasses, 20u) << dropAt;
    }
}

// Where the program does little else than short calls, they are looked at every 100 ms only.
TEST(Strategy, ALargeChangeOfTheLinkIsFollowedWithinFiftyTurns) {
  for (const double before : {40.0, 200.0, 300.0, 5e3, 1e5}) {
    for (const double after : {40.0, 200.0, 5e3, 1e5}) {
      SCOPED_TRACE(std::to_string(before) + " us, then " + std::to_string(after));
      for (uint64_t change = 400; change < 400 + kRound; ++change) {
        Job job([=](uint64_t turn, Strategy done) {
          const Link link{turn < change ? before : after};
          return done == Strategy::pass ? link.pass() : link.compress();
        });
        job.pause = 2 * kMillisecond;
        job.passes(change + 50);
        const Link now{after};
        const Strategy best = now.pass() < now.compress() ? Strategy::pass : Strategy::compress;
        const uint64_t passes = job.passes(40);
        EXPECT_EQ(passes, best == Strategy::pass ? 40u : 0u);
      }
    }
  }
}

// That two of three are close is no reason to go on with the third.
TEST(Strategy, ALargeChangeIsFollowedWhereTheOthersAreClose) {
  for (uint64_t change = 400; change < 400 + kRound; ++change)
    for (const double quick : {1.1, 1.27, 1.4}) {
      SCOPED_TRACE(std::to_string(change) + ", quick calls take " + std::to_string(quick));
      Job job(
          [&](uint64_t turn, Strategy done) {
            const bool isSlow = turn >= change;
            if (done == Strategy::pass) return (isSlow ? 700 : 3) * kMillisecond;
            const double ofQuick = done == Strategy::quick ? quick : 1;
            return static_cast<uint64_t>((isSlow ? 70 : 9) * ofQuick * kMillisecond);
          },
          true);
      job.passes(change);
      ASSERT_EQ(job.chooser.choice(), Strategy::pass);
      job.passes(40);
      EXPECT_LE(job.passes(2 * kRound), 3u) << "of a trial";
      EXPECT_EQ(job.chooser.choice(), Strategy::compress);
    }
}

// Whenever it changes: from one pool to the next there are two rounds of calls of a millisecond.
TEST(Strategy, WhatAChangedLinkCallsForIsDoneWithin50Turns) {
  for (uint64_t change = 120; change < 120 + 8 * kRound; ++change) {
    Job job(
        [=](uint64_t turn, Strategy done) {
          const bool isSlow = turn >= change;
          if (done == Strategy::pass) return (isSlow ? 176'000 : 8'400) * kMicrosecond;
          if (done == Strategy::quick) return (isSlow ? 23'000 : 1'070) * kMicrosecond;
          return (isSlow ? 16'900 : 1'400) * kMicrosecond;
        },
        true);
    job.passes(change);
    EXPECT_EQ(job.chooser.choice(), Strategy::quick);
    uint64_t inARow = 0;
    while (inARow < kRound && job.turn() < change + 100)
      inARow = job.step() == Strategy::compress ? inARow + 1 : 0;
    EXPECT_LE(job.turn() - kRound - change, 50u) << change;
  }
}

TEST(Strategy, RoundsThatFollowEachOtherFastArePooledSeldom) {
  const auto poolsOf = [](uint64_t time, uint64_t pause) {
    Job job = steadyJob(time, 5 * time);
    job.pause = pause;
    job.passes(500 * kRound);
    return job.nPools;
  };
  EXPECT_GE(poolsOf(3 * kMillisecond, 0), 498u);
  EXPECT_GE(poolsOf(10 * kMicrosecond, 3 * kMillisecond), 498u);
  EXPECT_LT(poolsOf(1 * kMillisecond, 0), 500u / 2 + 20);
  EXPECT_LT(poolsOf(800 * kMicrosecond, 0), 500u / 15 + 24) << "of 6.4 ms, every 100";
  EXPECT_LT(poolsOf(500 * kMicrosecond, 0), 500u / 5 + 20);
  EXPECT_LT(poolsOf(10 * kMicrosecond, 0), 500u / 64 + 22);
  EXPECT_GE(poolsOf(10 * kMicrosecond, 0), 500u / 64) << "now and then";
}

// The first calls of all take long for other reasons, too.
TEST(Strategy, PlainCallsThatWereSlowAtFirstAreTriedAgainSoon) {
  Job job([](uint64_t turn, Strategy done) {
    if (done != Strategy::pass) return 20 * kMillisecond;
    return turn < 3 ? 300 * kMillisecond : 5 * kMillisecond;
  });
  job.passes(80 * kRound);
  EXPECT_EQ(job.chooser.choice(), Strategy::pass);
}

TEST(Strategy, AnOddTurnChangesNothing) {
  Job job([](uint64_t turn, Strategy done) {
    const Link link{5e3};
    const uint64_t time = done == Strategy::pass ? link.pass() : link.compress();
    return turn % 10 == 0 ? 200 * kMillisecond : time;
  });
  job.passes(2 * kRound);
  EXPECT_EQ(job.passes(500), 0u);
  EXPECT_EQ(job.chooser.nTrials(), 1u);
}

// What a link may send at once, and how fast it is otherwise (a token bucket).
class SavingLink {
 public:
  explicit SavingLink(double store) : store_(store), saved_(store) {}
  // In ns, of a call that sends so many bytes at 1 byte/ns, and takes so long besides.
  uint64_t send(double bytes, double rest) {
    const double wait = std::max(0.0, bytes - saved_);
    saved_ = std::min(store_, std::max(0.0, saved_ - bytes) + rest);
    return static_cast<uint64_t>(wait + rest);
  }

 private:
  double store_, saved_;
};

// Trials find plain calls fast: the first one since nothing was sent before, later ones since
// compressed calls send less than the link lets through.
TEST(Strategy, WhatALinkSavedUpDoesNotDecideForLong) {
  constexpr double kPlainBytes = 1e6;
  for (const int store : {3, 4, 5, 8, 12, 20, 40}) {
    SCOPED_TRACE(store);
    SavingLink link(store * kPlainBytes);
    Job job([&link](uint64_t, Strategy done) {
      return done == Strategy::pass ? link.send(kPlainBytes, 50e3)
                                    : link.send(kPlainBytes / 8, 250e3);
    });
    job.passes(2 * kRound + 1);
    EXPECT_LT(job.chooser.time(Strategy::pass), 100 * kMicrosecond);
    job.passes(14 * kRound);
    EXPECT_EQ(job.chooser.choice(), Strategy::compress);
    EXPECT_LT(job.passes(100 * kRound), 15 * kRound) << "one may be believed once more";
    EXPECT_LT(job.passes(2000 * kRound), 2000 * kRound / 50);
  }
}

// Where a choice is always slower than in a trial, it is not doubted again and again.
TEST(Strategy, ADoubtIsLookedIntoOnce) {
  Job job([](uint64_t turn, Strategy done) {
    const bool isFirst = turn % kRound < 3;
    return done == Strategy::pass ? (isFirst ? 100u : 250u) * kMicrosecond : 1000 * kMicrosecond;
  });
  job.passes(2 * kRound);
  EXPECT_GE(job.passes(200 * kRound), 200 * kRound - 6 * 5);
}

TEST(Strategy, NoiseCostsLittle) {
  for (const double plain : {100.0, 250.0, 342.0, 400.0, 1e3, 1e4}) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
      std::mt19937 random(seed);
      std::lognormal_distribution<double> noise(0, 0.25);
      Job job([&](uint64_t, Strategy done) {
        const Link link{plain};
        const auto time = done == Strategy::pass ? link.pass() : link.compress();
        return static_cast<uint64_t>(static_cast<double>(time) * noise(random));
      });
      job.passes(100);
      job.spent = 0;
      constexpr uint64_t kTurns = 5000;
      job.passes(kTurns);
      const Link link{plain};
      const double mean = std::exp(0.25 * 0.25 / 2);
      const double best = static_cast<double>(std::min(link.pass(), link.compress())) * mean;
      EXPECT_LT(static_cast<double>(job.spent), best * kTurns * 1.1) << plain << " seed " << seed;
    }
  }
}

TEST(Strategy, OneSlowCallDoesNotDecide) {
  for (uint64_t slow = 2; slow < kRound; ++slow) {
    Job job(
        [=](uint64_t turn, Strategy done) -> uint64_t {
          const uint64_t time = done == Strategy::pass    ? 8000
                                : done == Strategy::quick ? 2100
                                                          : 1000;
          return kMicrosecond * (turn == slow ? 4 * time : time);
        },
        true);
    job.passes(6 * kRound);
    EXPECT_EQ(job.chooser.choice(), Strategy::compress) << slow;
  }
}

// After a pause a link lets a call through that would take longer: of a pause in every trial
// nobody could tell.
TEST(Strategy, OneFastQuickCallDoesNotDecide) {
  for (uint64_t fast = 2; fast < 3 * kRound; ++fast) {
    Job job(
        [=](uint64_t turn, Strategy done) -> uint64_t {
          const uint64_t time = done == Strategy::pass    ? 8000
                                : done == Strategy::quick ? 2100
                                                          : 1000;
          return kMicrosecond * (turn == fast ? time / 8 : time);
        },
        true);
    job.passes(8 * kRound);
    EXPECT_EQ(job.chooser.choice(), Strategy::compress) << fast;
  }
}

// Nor does a slow one rule them out.
TEST(Strategy, OneSlowQuickCallDoesNotDecide) {
  for (uint64_t slow = 2; slow < 4 * kRound; ++slow) {
    Job job(
        [=](uint64_t turn, Strategy done) -> uint64_t {
          const uint64_t time = done == Strategy::pass    ? 3000
                                : done == Strategy::quick ? 1500
                                                          : 2800;
          return kMicrosecond * (turn == slow ? 40 * time : time);
        },
        true);
    job.passes(12 * kRound);
    EXPECT_EQ(job.chooser.choice(), Strategy::quick) << slow;
  }
}

// What it would have been held against is old when there is a trial again.
TEST(Strategy, ALostTrialEndsItsSeries) {
  bool isSlow = false;
  Job job(
      [&](uint64_t, Strategy done) -> uint64_t {
        const uint64_t slow = done == Strategy::pass ? 10 : done == Strategy::quick ? 5 : 3;
        const uint64_t fast = done == Strategy::pass ? 1000 : done == Strategy::quick ? 900 : 2000;
        return isSlow ? slow * kMillisecond : fast * kMicrosecond;
      },
      true);
  job.passes(2 * kRound + 1);
  ASSERT_EQ(job.chooser.nTrials(), 1u);
  job.failsToPool = true;
  job.passes(20 * kRound);
  ASSERT_EQ(job.chooser.nTrials(), 1u) << "the second trial was lost";
  job.failsToPool = false;
  job.passes(100 * kRound);
  isSlow = true;
  job.passes(40 * kRound);
  EXPECT_EQ(job.chooser.choice(), Strategy::compress);
}

// A round now and then in which all takes four times as long; then it stays so.
TEST(Strategy, AChangeIsFollowedSoonAfterFalseAlarms) {
  for (uint64_t change = 60 * kRound; change < 61 * kRound; ++change) {
    Job job([=](uint64_t turn, Strategy done) {
      const bool isAlarm = turn < 55 * kRound && turn / kRound % 10 == 9;
      const Link link{turn < change ? 5e3 : 40.0};
      return (isAlarm ? 4 : 1) * (done == Strategy::pass ? link.pass() : link.compress());
    });
    job.pause = 5 * kMillisecond;
    job.passes(change + 60);
    EXPECT_GE(job.chooser.nTrials(), 3u);
    EXPECT_EQ(job.passes(40), 40u) << change;
  }
}

// Times that jump about say nothing new, however often one is tried again.
TEST(Strategy, DriftsThatMeanNothingAreLookedIntoMoreAndMoreSeldom) {
  std::mt19937 random(5);
  std::lognormal_distribution<double> noise(0, 0.8);
  Job job([&](uint64_t, Strategy done) {
    return static_cast<uint64_t>((done == Strategy::pass ? 1e6 : 8e6) * noise(random));
  });
  job.passes(200);
  const uint64_t before = job.chooser.nTrials();
  job.passes(1000 * kRound);
  EXPECT_LT(job.chooser.nTrials() - before, 1000u / 20);
}

TEST(Strategy, ASmallDriftIsLookedIntoWhenItLasts) {
  // Compressed is faster by a third; then plain calls get faster, which only a trial can show.
  Job job([](uint64_t turn, Strategy done) -> uint64_t {
    if (turn < 2000) return (done == Strategy::pass ? 1400 : 1000) * kMicrosecond;
    return (done == Strategy::pass ? 400 : 750) * kMicrosecond;
  });
  job.passes(2000);
  EXPECT_EQ(job.chooser.choice(), Strategy::compress);
  job.passes(100 * kRound);
  EXPECT_EQ(job.chooser.choice(), Strategy::pass);
}

TEST(Strategy, RanksThatHearTheSameDoTheSame) {
  std::mt19937_64 random(7);
  for (int run = 0; run < 200; ++run) {
    StrategyChooser ranks[2] = {StrategyChooser(run % 2 == 0), StrategyChooser(run % 2 == 0)};
    uint64_t nHeard = 0;
    for (uint64_t turn = 0; turn < 200 * kRound; ++turn) {
      const uint64_t round = turn / kRound;
      for (; turn % kRound == 0 && nHeard + ranks[0].delay() <= round; ++nHeard) {
        std::vector<uint64_t> least(random() % 9 == 0 ? 0 : kRound);
        const bool isEarly = random() % 7 == 0;
        for (uint64_t& value : least)
          value = isEarly || random() % 4 == 0 ? kNotTimed : random() >> (random() % 64);
        for (StrategyChooser& rank : ranks) rank.hear(nHeard, least);
      }
      ASSERT_EQ(ranks[0].at(turn), ranks[1].at(turn));
      const bool isTimed = random() % 5 != 0;
      for (StrategyChooser& rank : ranks) rank.note(turn, rank.at(turn), isTimed);
    }
    ASSERT_EQ(ranks[0].time(Strategy::pass), ranks[1].time(Strategy::pass));
  }
}

TEST(Strategy, WithoutFiguresWhatMayBeCompressedIs) {
  Job job = steadyJob(kNotTimed, kNotTimed);
  job.passes(kRound);
  EXPECT_EQ(job.passes(1000), 0u);
}

TEST(Strategy, AFailedPoolIsNotRepeatedSoon) {
  Job job = steadyJob(10, 10000);
  job.failsToPool = true;
  job.passes(60 * kRound);
  EXPECT_EQ(job.nPools, 8u) << "given more time three times, then after 2, 4, 8, ... rounds";
  job.failsToPool = false;
  job.passes(60 * kRound);
  EXPECT_EQ(job.chooser.choice(), Strategy::pass);
}

}  // namespace
}  // namespace cinch
