#include "interpose/policy/precision/knapsack.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <random>

namespace cinch {
namespace {

using Groups = std::vector<KnapsackGroup>;

// The least cost of all solutions, by trying each.
std::optional<int64_t> leastCost(const Groups& groups, int64_t capacity, size_t first = 0) {
  if (capacity < 0) return std::nullopt;
  if (first == groups.size()) return 0;
  std::optional<int64_t> least;
  for (const KnapsackOption& option : groups[first]) {
    const auto rest = leastCost(groups, capacity - option.weight, first + 1);
    if (rest && (!least || option.cost + *rest < *least)) least = option.cost + *rest;
  }
  return least;
}

// That cost and weight are those of what was chosen, and the weight within the capacity.
void expectConsistent(const Groups& groups, int64_t capacity, const KnapsackSolution& solution) {
  ASSERT_EQ(solution.chosen.size(), groups.size());
  int64_t cost = 0, weight = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    ASSERT_LT(solution.chosen[i], groups[i].size());
    cost += groups[i][solution.chosen[i]].cost;
    weight += groups[i][solution.chosen[i]].weight;
  }
  EXPECT_EQ(solution.cost, cost);
  EXPECT_EQ(solution.weight, weight);
  EXPECT_EQ(solution.fits, weight <= capacity);
  EXPECT_GE(solution.gap, 0);
}

int64_t upTo(std::mt19937_64& random, int64_t most) {
  return std::uniform_int_distribution<int64_t>(0, most)(random);
}

Groups randomGroups(std::mt19937_64& random, size_t nGroups, size_t nOptions, int64_t most) {
  Groups groups(nGroups);
  for (KnapsackGroup& group : groups)
    for (size_t n = 1 + random() % nOptions; group.size() < n;)
      group.push_back({upTo(random, most), upTo(random, most)});
  return groups;
}

int64_t heaviest(const Groups& groups) {
  int64_t sum = 0;
  for (const KnapsackGroup& group : groups) {
    int64_t most = 0;
    for (const KnapsackOption& option : group) most = std::max(most, option.weight);
    sum += most;
  }
  return sum;
}

// Layers of very different sizes, each with codecs of 1 to 16 bits whose errors fall by about a
// quarter per bit; the capacity is the error of 4 bits.
struct LayersLike {
  Groups groups;
  int64_t capacity = 0;

  LayersLike(std::mt19937_64& random, size_t nLayers, bool equalSizes) {
    constexpr double kBits[] = {1, 2, 3, 4, 5, 6, 8, 16};
    for (size_t i = 0; i < nLayers; ++i) {
      std::uniform_real_distribution<double> logTiles(0, 10), factor(1, 1.3);
      const double nTiles = equalSizes ? 64 : std::floor(std::exp(logTiles(random)));
      const double power = nTiles * std::exp(std::normal_distribution<double>(0, 1.5)(random));
      KnapsackGroup group;
      for (double bits : kBits)
        group.push_back(
            {static_cast<int64_t>(nTiles * (128 * bits + 32)),
             static_cast<int64_t>(0x1p34 * power * factor(random) * std::exp2(-2 * bits))});
      capacity += group[3].weight;
      groups.push_back(std::move(group));
    }
  }
};

TEST(Knapsack, NoGroupsAtAll) {
  const KnapsackSolution solution = solveKnapsack({}, 0);
  EXPECT_TRUE(solution.chosen.empty());
  EXPECT_TRUE(solution.fits);
  EXPECT_EQ(solution.gap, 0);
}

TEST(Knapsack, TheLightestWhereNothingFits) {
  const Groups groups = {{{1, 50}, {9, 20}}, {{5, 30}, {4, 30}}};
  const KnapsackSolution solution = solveKnapsack(groups, 49);
  EXPECT_FALSE(solution.fits);
  EXPECT_EQ(solution.chosen, (std::vector<uint32_t>{1, 1}));
  expectConsistent(groups, 49, solution);
  EXPECT_TRUE(solveKnapsack(groups, 50).fits);
}

TEST(Knapsack, TheCheapestWhereAllFits) {
  const Groups groups = {{{1, 50}, {9, 20}}, {{5, 30}, {4, 31}}};
  EXPECT_EQ(solveKnapsack(groups, 81).chosen, (std::vector<uint32_t>{0, 1}));
}

// An option off the convex hull, which no mixture needs, can be the best one all the same.
TEST(Knapsack, ChoosesOffTheHull) {
  const Groups groups = {{{100, 0}, {60, 5}, {0, 10}}};
  EXPECT_EQ(solveKnapsack(groups, 9).chosen[0], 1u);
  EXPECT_EQ(solveKnapsack(groups, 9).gap, 0);
}

TEST(Knapsack, IsOptimal) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 3000; ++round) {
    const int64_t most = round % 3 == 0 ? 9 : 1000000;
    const Groups groups = randomGroups(random, 1 + random() % 6, 5, most);
    const int64_t capacity = upTo(random, heaviest(groups));
    const KnapsackSolution solution = solveKnapsack(groups, capacity);
    expectConsistent(groups, capacity, solution);
    const auto least = leastCost(groups, capacity);
    ASSERT_EQ(solution.fits, least.has_value());
    if (!least) continue;
    ASSERT_EQ(solution.cost, *least) << "round " << round;
    ASSERT_EQ(solution.gap, 0);
  }
}

TEST(Knapsack, IsOptimalForGroupsThatAreAlike) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 300; ++round) {
    const Groups groups(7, randomGroups(random, 1, 4, 50)[0]);
    const int64_t capacity = upTo(random, heaviest(groups));
    const auto least = leastCost(groups, capacity);
    const KnapsackSolution solution = solveKnapsack(groups, capacity);
    ASSERT_EQ(solution.fits, least.has_value());
    ASSERT_EQ(solution.fits ? solution.cost : 0, least.value_or(0)) << "round " << round;
  }
}

TEST(Knapsack, IsOptimalForLayers) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    const LayersLike layers(random, 6, false);
    const KnapsackSolution solution = solveKnapsack(layers.groups, layers.capacity);
    ASSERT_EQ(solution.cost, leastCost(layers.groups, layers.capacity));
    ASSERT_EQ(solution.gap, 0);
  }
}

// 500 layers take far fewer states than are allowed: the bound on the work is for hostile cases.
TEST(Knapsack, FiveHundredLayersAreSolvedExactly) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 20; ++round) {
    const LayersLike layers(random, 500, round % 2 == 0);
    const KnapsackSolution solution = solveKnapsack(layers.groups, layers.capacity);
    expectConsistent(layers.groups, layers.capacity, solution);
    EXPECT_TRUE(solution.fits);
    EXPECT_EQ(solution.gap, 0) << "round " << round;
  }
}

// However little work is allowed, the gap that is stated holds, and more work does not hurt.
TEST(Knapsack, StatesATrueGapWhenItStopsEarly) {
  std::mt19937_64 random(5);
  int nStopped = 0;
  for (int round = 0; round < 40; ++round) {
    const LayersLike layers(random, 60, round % 2 == 0);
    const int64_t least = solveKnapsack(layers.groups, layers.capacity).cost;
    for (uint64_t maxStates : {0, 10, 100, 1000}) {
      const KnapsackSolution solution = solveKnapsack(layers.groups, layers.capacity, maxStates);
      expectConsistent(layers.groups, layers.capacity, solution);
      EXPECT_TRUE(solution.fits);
      EXPECT_LE(solution.cost - solution.gap, least);
      EXPECT_GE(solution.cost, least);
      nStopped += solution.gap > 0;
    }
  }
  EXPECT_GT(nStopped, 20);
}

// Weight and cost in exact proportion give no bound to prune with: the work must end all the same.
TEST(Knapsack, AHostileCaseEnds) {
  std::mt19937_64 random(6);
  Groups groups(500);
  for (KnapsackGroup& group : groups)
    for (int i = 0; i < 8; ++i) {
      const int64_t weight = 2 * upTo(random, int64_t{1} << 40);
      group.push_back({(int64_t{1} << 42) - weight, weight});
    }
  const int64_t capacity = heaviest(groups) / 2 + 1;
  const KnapsackSolution solution = solveKnapsack(groups, capacity);
  expectConsistent(groups, capacity, solution);
  EXPECT_TRUE(solution.fits);
  EXPECT_LT(solution.gap, solution.cost / 1000);
}

TEST(Knapsack, TotalsUpToTheLimit) {
  const int64_t half = kMaxKnapsackTotal / 2 - 1;
  const Groups groups = {{{0, half}, {half, 0}, {half / 2, half / 2}},
                         {{0, half}, {half, 0}, {half / 3, half / 2}}};
  const KnapsackSolution solution = solveKnapsack(groups, half);
  EXPECT_EQ(solution.cost, leastCost(groups, half));
  EXPECT_EQ(solution.gap, 0);
}

}  // namespace
}  // namespace cinch
