#include "interpose/policy/period_finder.h"

#include <gtest/gtest.h>

#include <random>

namespace cinch {
namespace {

const auto kAny = [](std::span<const uint32_t>) { return 0u; };

// The definition, word for word: the smallest period that the end of `stream` has held for two
// periods, with a symbol that matters in the last one.
std::optional<uint32_t> periodByDefinition(const std::vector<uint32_t>& stream,
                                           const std::vector<bool>& matters, uint32_t times,
                                           uint32_t longEnough) {
  const size_t n = stream.size();
  for (uint32_t p = 1; p < n && p <= PeriodFinder::kMaxPeriod; ++p) {
    uint32_t held = 0;
    while (held + p < n && stream[n - 1 - held] == stream[n - 1 - held - p]) ++held;
    const bool hasSome = std::find(matters.end() - p, matters.end(), true) != matters.end();
    if (hasSome && held / times >= 2 * p && held / times >= longEnough) return p;
  }
  return std::nullopt;
}

TEST(PeriodFinder, FindsWhatTheDefinitionSays) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    PeriodFinder finder;
    std::vector<uint32_t> stream;
    std::vector<bool> matters;
    const uint32_t period = 1 + random() % 6, nSymbols = 1 + random() % 3;
    for (int i = 0; i < 120; ++i) {
      const bool copies = stream.size() >= period && random() % 50 != 0;
      const uint32_t symbol = copies ? stream[stream.size() - period] : random() % nSymbols;
      const bool isImportant = symbol != 0;
      finder.feed(symbol, isImportant);
      stream.push_back(symbol);
      matters.push_back(isImportant);
      for (const uint32_t times : {1u, 3u})
        ASSERT_EQ(finder.period(times, kAny),
                  periodByDefinition(stream, matters, times, 3 * finder.longestBroken()))
            << "seed " << seed << " after " << i + 1;
    }
  }
}

TEST(PeriodFinder, WhatBrokeRaisesWhatIsAsked) {
  PeriodFinder finder;
  for (int step = 0; step < 5; ++step) {
    for (int layer = 0; layer < 20; ++layer) finder.feed(7, true);
    finder.feed(8, true);
    EXPECT_EQ(finder.longestBroken(), 19u);
    // A step of 21 has held for 57 calls only in the fourth.
    EXPECT_EQ(finder.period(1, kAny).has_value(), step >= 3) << step;
  }
  EXPECT_EQ(finder.period(1, kAny), 21u);
  finder.restart();
  EXPECT_EQ(finder.period(1, kAny), std::nullopt);
  EXPECT_EQ(finder.longestBroken(), 19u) << "the next stream may have such layers, too";
}

TEST(PeriodFinder, AsksForTheWholePeriodAndWhatItNeeds) {
  PeriodFinder finder;
  for (int i = 0; i < 10; ++i) finder.feed(i % 2, true);
  const auto needs = [](uint32_t n) {
    return [n](std::span<const uint32_t> word) {
      EXPECT_EQ(word.size() % 2, 0u);
      return n;
    };
  };
  EXPECT_EQ(finder.period(1, needs(8)), 2u);
  EXPECT_EQ(finder.period(1, needs(9)), std::nullopt) << "it has held for 8 calls";
}

// Whatever the small calls were that nothing large stood between, and however many.
TEST(PeriodFinder, ALongWhileInWhichNothingMattersIsForgotten) {
  for (const uint32_t nSmall : {PeriodFinder::kMaxPeriod - 1, PeriodFinder::kMaxPeriod,
                                PeriodFinder::kMaxPeriod + 1, 3 * PeriodFinder::kMaxPeriod}) {
    PeriodFinder finder;
    for (int i = 0; i < 100; ++i) finder.feed(i % 5, true);
    for (uint32_t i = 0; i < nSmall; ++i) finder.feed(5 + i % 2, false);
    EXPECT_EQ(finder.period(1, kAny), std::nullopt) << nSmall;
    EXPECT_EQ(finder.longestBroken(), 95u) << "the structure before them has broken";
    for (int i = 0; i < 3 * 95 + 7; ++i) finder.feed(7 + i % 7, i % 7 == 0);
    EXPECT_EQ(finder.period(1, kAny), 7u) << nSmall;
  }
}

TEST(PeriodFinder, WhatDoesNotMatterHasNoPeriod) {
  PeriodFinder finder;
  for (int i = 0; i < 100; ++i) finder.feed(i % 2, false);
  EXPECT_EQ(finder.period(1, kAny), std::nullopt);
  EXPECT_EQ(finder.longestBroken(), 0u);
  finder.feed(5, false);
  EXPECT_EQ(finder.longestBroken(), 0u);
}

// Streams without end are kept in bounded memory, and the longest period is found in them.
TEST(PeriodFinder, FindsTheLongestPeriodInALongStream) {
  PeriodFinder finder;
  std::mt19937 random(3);
  std::vector<uint32_t> word(PeriodFinder::kMaxPeriod);
  for (uint32_t i = 0; i < 20000; ++i) finder.feed(random(), true);
  for (uint32_t& symbol : word) symbol = static_cast<uint32_t>(random());
  for (int times = 0; times < 3; ++times)
    for (const uint32_t symbol : word) finder.feed(symbol, true);
  EXPECT_EQ(finder.period(1, kAny), PeriodFinder::kMaxPeriod);
  EXPECT_TRUE(std::equal(word.begin(), word.end(), finder.last(PeriodFinder::kMaxPeriod).begin()));
}

}  // namespace
}  // namespace cinch
