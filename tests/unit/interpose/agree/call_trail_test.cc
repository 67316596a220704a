// Ranks' trails, and what the server makes of them.
#include "interpose/agree/call_trail.h"

#include <gtest/gtest.h>

#include <random>

#include "interpose/agree/call_comparison.h"

namespace cinch {
namespace {

constexpr Clock::time_point kMuchLater = Clock::time_point::max();

// A rank of a program of which call n is `n % 7`, but for what the test changes.
struct Program {
  CallTrail trail;
  uint64_t nCalls = 0;

  void call(uint64_t what, const std::vector<Decision>& decided = {}) {
    trail.claim(nCalls++, what, decided);
    trail.confirm();
  }
  void run(uint64_t n) {
    for (uint64_t i = 0; i < n; ++i) call(nCalls % 7);
  }
};

// All that a rank that stands still has to say.
void tellAll(CallComparison& comparison, size_t number, Program& rank) {
  for (int i = 0; i < 2; ++i)
    if (const auto trail = rank.trail.take()) comparison.add(number, *trail);
}

std::optional<Difference> found(Program& first, Program& second) {
  CallComparison comparison;
  tellAll(comparison, 0, first);
  tellAll(comparison, 1, second);
  return comparison.takeDue(kMuchLater);
}

TEST(CallTrail, RanksThatDoTheSameAreAlikeHoweverFarApart) {
  for (const uint64_t ahead : {0, 1, 63, 64, 65, 5000}) {
    Program first, second;
    first.run(130);
    second.run(130 + ahead);
    EXPECT_FALSE(found(first, second)) << ahead;
  }
}

TEST(CallTrail, TheFirstCallThatDiffersIsFoundWhereRanksStandStill) {
  for (const uint64_t same : {0, 1, 62, 63, 64, 65, 127, 128, 1000}) {
    for (const uint64_t after : {0, 1, 40}) {
      Program first, second;
      first.run(same + 1 + after);
      second.run(same);
      second.call(100);
      second.run(after);
      const auto difference = found(first, second);
      ASSERT_TRUE(difference) << same;
      EXPECT_EQ(difference->alike, same);
      EXPECT_EQ(difference->differs, same + 1);
      EXPECT_EQ(difference->rank, 1u);
      EXPECT_EQ(difference->other, 0u);
      EXPECT_EQ(second.trail.callAt(same), 100u);
    }
  }
}

// Where they go on: programs whose collectives still fit together.
TEST(CallTrail, WhereRanksGoOnTheStrideIsFound) {
  Program first, second;
  CallComparison comparison;
  for (int step = 0; step < 10; ++step) {
    first.run(70);
    second.run(step == 5 ? 69 : 70);
    if (step == 5) second.call(100);
    for (size_t number : {0, 1})
      if (const auto trail = (number == 0 ? first : second).trail.take())
        comparison.add(number, *trail);
  }
  ASSERT_NE(comparison.due(), kNoDeadline);
  EXPECT_FALSE(comparison.takeDue(Clock::now())) << "it may still be narrowed down";
  const auto difference = comparison.takeDue(kMuchLater);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->alike, 384u);
  EXPECT_EQ(difference->differs, 448u) << "it was call 420";
  EXPECT_FALSE(comparison.takeDue(kMuchLater)) << "once";
  EXPECT_EQ(comparison.due(), kNoDeadline);
}

// That ranks go on in different ways is what must never be, so that it is looked for, too.
TEST(CallTrail, WhatWasDecidedBelongsToTheCall) {
  const std::vector<std::vector<Decision>> others = {
      {}, {{1, {2, 4}}}, {{2, {2, 3}}}, {{1, {2, 3}}, {1, {2, 3}}}};
  for (const auto& other : others) {
    Program first, second;
    first.run(10);
    second.run(10);
    first.call(5, {{1, {2, 3}}});
    second.call(5, other);
    const auto difference = found(first, second);
    ASSERT_TRUE(difference);
    EXPECT_EQ(difference->differs, 11u);
  }
}

TEST(CallTrail, WhatDidNotTakePlaceLeavesNoTrace) {
  Program plain, other;
  plain.run(5);
  plain.call(5, {{1, {2}}});
  plain.run(200);
  other.run(5);
  other.trail.claim(5, 77, std::vector<Decision>{{1, {2}}});  // which is not given again
  other.trail.claim(6, 78, {});
  EXPECT_EQ(other.trail.callAt(5), std::nullopt);
  other.trail.takeBack();
  other.trail.takeBack();
  other.trail.confirm();
  EXPECT_EQ(other.trail.callAt(5), std::nullopt);
  other.run(1);
  other.run(200);
  EXPECT_FALSE(found(plain, other));
}

// Calls of an open group take the places of older ones, which must not be told as if they were
// those.
TEST(CallTrail, WhatHasNoPlaceAnyMoreIsNotTold) {
  for (const uint64_t nInGroup : {1, 63, 64, 65, 100, 127, 128, 300, 5000}) {
    for (const bool isTakenBack : {false, true}) {
      Program plain, grouping;
      CallComparison comparison;
      plain.run(6400);
      grouping.run(6400);
      for (uint64_t i = 0; i < nInGroup; ++i) grouping.trail.claim(6400 + i, 9, {});
      for (uint64_t i = 0; isTakenBack && i < nInGroup; ++i) grouping.trail.takeBack();
      tellAll(comparison, 0, plain);
      tellAll(comparison, 1, grouping);
      EXPECT_EQ(comparison.due(), kNoDeadline) << nInGroup;
    }
  }
}

// A group of more calls than are kept.
TEST(CallTrail, WhoCannotKnowSaysNothing) {
  Program plain, other;
  plain.run(600);
  other.run(100);
  for (uint64_t i = 100; i < 300; ++i) other.trail.claim(i, 9, {});
  for (uint64_t i = 100; i < 300; ++i) other.trail.takeBack();
  other.run(500);
  EXPECT_EQ(other.trail.take(), std::nullopt);
  EXPECT_FALSE(found(plain, other));
}

TEST(CallTrail, NothingIsSentTwiceAndNothingWhereNothingHappens) {
  Program rank;
  EXPECT_FALSE(rank.trail.take());
  rank.run(64);
  EXPECT_EQ(rank.trail.take()->hashes.size(), 1u);
  EXPECT_EQ(rank.trail.take()->hashes.size(), 64u) << "it stands still";
  EXPECT_FALSE(rank.trail.take()) << "all of it is told";
  rank.run(1);
  EXPECT_FALSE(rank.trail.take());
  EXPECT_EQ(rank.trail.take()->hashes.size(), 64u) << "it stands still";
  EXPECT_FALSE(rank.trail.take());
  rank.run(64 * 1000);
  EXPECT_LE(rank.trail.take()->hashes.size(), kMaxTrail);
}

// Ranks that call, take back, are asked and arrive as chance has it; of some, one makes another
// call.
TEST(CallTrail, AtRandom) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<Program> ranks(2 + random() % 4);
    const uint64_t most = 1 + random() % 700;
    const bool isOneWrong = random() % 2 == 0;
    const size_t wrong = random() % ranks.size();
    const uint64_t at = random() % most;
    CallComparison comparison;
    const auto make = [&](size_t who) {
      Program& rank = ranks[who];
      const uint64_t group =
          std::min(1 + random() % (random() % 8 == 0 ? 100 : 5), most - rank.nCalls);
      for (uint64_t i = 0, isRefused = random() % 4 == 0; i < group * (1 + isRefused); ++i) {
        const uint64_t n = rank.nCalls + i % group;
        const bool isFirst = i < group;
        std::vector<Decision> decided;
        if (isFirst && n % 11 == 0) decided.push_back({n, {1}});
        const bool differs = isOneWrong && who == wrong && n == at;
        rank.trail.claim(n, differs ? 1000 : n % 13, decided);
        if (random() % 50 == 0)
          if (const auto trail = rank.trail.take()) comparison.add(who, *trail);
        const bool isEnd = isRefused && i + 1 == group;
        for (uint64_t back = 0; isEnd && back < group; ++back) rank.trail.takeBack();
      }
      rank.nCalls += group;
      rank.trail.confirm();
    };
    for (bool isMoving = true; isMoving;) {
      isMoving = false;
      for (size_t who = 0; who < ranks.size(); ++who) {
        if (ranks[who].nCalls < most && random() % 3 != 0) make(who);
        isMoving = isMoving || ranks[who].nCalls < most;
        if (random() % 20 != 0) continue;
        if (const auto trail = ranks[who].trail.take()) comparison.add(who, *trail);
      }
    }
    for (size_t who = 0; who < ranks.size(); ++who) tellAll(comparison, who, ranks[who]);
    const auto difference = comparison.takeDue(kMuchLater);
    ASSERT_EQ(difference.has_value(), isOneWrong) << seed;
    if (!difference) continue;
    EXPECT_LE(difference->alike, at) << seed;
    EXPECT_GT(difference->differs, at) << seed;
    EXPECT_TRUE(difference->rank == wrong || difference->other == wrong) << seed;
    EXPECT_TRUE(most - at > kTrailStride || difference->differs == at + 1) << seed;
  }
}

}  // namespace
}  // namespace cinch
