#include "common/cost_table.h"

#include <gtest/gtest.h>

#include <random>

namespace cinch {
namespace {

CostTable example() {
  return {8,
          2,
          {{TunedCollective::allReduce, 1 << 20, 1, Algorithm::ring, Protocol::ll128, 123.25f},
           {TunedCollective::allGather, 0, 0, Algorithm::pat, Protocol::simple, 0.1f},
           {TunedCollective::broadcast, ~uint64_t{0}, 7, Algorithm::tree, Protocol::ll, 3.6e9f}}};
}

TEST(CostTable, ComesBackAsItWas) {
  const CostTable table = example();
  const auto parsed = parseCostTable(formatCostTable(table));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed.value().nRanks, 8);
  EXPECT_EQ(parsed.value().nNodes, 2);
  EXPECT_EQ(parsed.value().rows, table.rows);
}

TEST(CostTable, ErrorsNameTheLine) {
  const std::string good = formatCostTable(example());
  const struct {
    const char* line;
    const char* text;
  } bad[] = {{"# c\ncinch-costs,2,8,2\n", "line 2"},
             {"cinch-costs,1,8,9\n", "line 1"},
             {"cinch-costs,1,0,0\n", "line 1"},
             {"cinch-costs,1,8\n", "line 1"},
             {"cinch-costs,1,8,2\nallreduce,1,1,ring,simple\n", "line 2"},
             {"cinch-costs,1,8,2\nallreduce,1,1,ring,simple,-1\n", "line 2"},
             {"cinch-costs,1,8,2\nallreduce,1,1,ring,simple,nan\n", "line 2"},
             {"cinch-costs,1,8,2\nallreduce,1,-1,ring,simple,1\n", "line 2"},
             {"cinch-costs,1,8,2\nallreduce,-1,1,ring,simple,1\n", "line 2"},
             {"cinch-costs,1,8,2\n\nallreduce,1,1,rings,simple,1\n", "line 3"},
             {"cinch-costs,1,8,2\nallreduce,1,1,ring,simple,1,2\n", "line 2"},
             {"", "no heading"}};
  for (const auto& [text, expected] : bad) {
    const auto parsed = parseCostTable(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.error().message.find(expected), std::string::npos) << parsed.error().message;
  }
}

TEST(CostTable, IsBounded) {
  std::string text = "cinch-costs,1,8,2\n";
  for (size_t i = 0; i < kMaxCostRows; ++i) text += "reduce,1,1,ring,simple,1\n";
  EXPECT_TRUE(parseCostTable(text).ok());
  EXPECT_FALSE(parseCostTable(text + "reduce,1,1,ring,simple,1\n").ok());
}

// What is taken comes back; nothing crashes.
TEST(CostTable, TakesAnyBytes) {
  std::mt19937 random(1);
  const std::string good = formatCostTable(example());
  for (int round = 0; round < 20000; ++round) {
    std::string text = good.substr(random() % 60);
    for (int edit = 0; edit < 3; ++edit) text[random() % text.size()] = static_cast<char>(random());
    const auto parsed = parseCostTable(text);
    if (!parsed.ok()) continue;
    const auto again = parseCostTable(formatCostTable(parsed.value()));
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again.value().rows, parsed.value().rows);
  }
}

TEST(CostTable, SaysWhatIsExpectedOfTheFastest) {
  constexpr auto kAll = TunedCollective::allReduce;
  const CostTable table{4,
                        2,
                        {{kAll, 1000, 1, Algorithm::ring, Protocol::simple, 20},
                         {kAll, 1000, 1, Algorithm::tree, Protocol::ll, 10},
                         {kAll, 3000, 1, Algorithm::tree, Protocol::ll, 70},
                         {kAll, 3000, 1, Algorithm::ring, Protocol::simple, 50},
                         {TunedCollective::reduce, 2000, 1, Algorithm::ring, Protocol::ll, 1}}};
  const auto least = fastestIn(table, kAll, 1000), between = fastestIn(table, kAll, 1500),
             most = fastestIn(table, kAll, 3000);
  ASSERT_TRUE(least && between && most);
  EXPECT_EQ(least->algorithm, Algorithm::tree);
  EXPECT_EQ(least->microseconds, 10);
  EXPECT_EQ(between->algorithm, Algorithm::ring);
  EXPECT_EQ(between->protocol, Protocol::simple);
  EXPECT_EQ(between->microseconds, 20);
  EXPECT_EQ(most->microseconds, 50);
  EXPECT_FALSE(fastestIn(table, kAll, 999));
  EXPECT_FALSE(fastestIn(table, kAll, 3001));
  EXPECT_FALSE(fastestIn(table, TunedCollective::reduceScatter, 2000));
  EXPECT_FALSE(fastestIn({}, kAll, 1000));
}

TEST(CostTable, HasAFileForEachShape) {
  EXPECT_NE(costTablePath("/c", 8, 1), costTablePath("/c", 8, 2));
  EXPECT_TRUE(costTablePath("/c", 8, 1).starts_with("/c/nccl-costs."));
}

}  // namespace
}  // namespace cinch
