// The multiple-choice knapsack: one option of each group, so that the total cost is least and the
// total weight within a capacity. Pure, in integers only: the same answer on every machine.
//
// The search decides group after group, those of the widest range of weights first, and keeps the
// nondominated pairs of cost and weight. The linear relaxation of the groups that are still open
// bounds what a pair can lead to, and completes it to a solution; pairs that cannot lead to
// anything better than the best solution are dropped, and so are, before that, options that are too
// dear at the relaxation's price. (The ingredients are those of D. Pisinger, "A minimal algorithm
// for the multiple-choice knapsack problem", European Journal of Operational Research 83, 1995.)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cinch {

struct KnapsackOption {
  int64_t cost;    // 0 or more
  int64_t weight;  // 0 or more
};
using KnapsackGroup = std::vector<KnapsackOption>;  // at least one option

// A solution's total cost and total weight must be below this, whatever is chosen.
inline constexpr int64_t kMaxKnapsackTotal = int64_t{1} << 60;

// States that a search may make, some tens of nanoseconds each, before it settles for what it has.
inline constexpr uint64_t kMaxKnapsackStates = 100'000;

struct KnapsackSolution {
  std::vector<uint32_t> chosen;  // by group: index of the option
  int64_t cost = 0;
  int64_t weight = 0;
  int64_t gap = 0;   // no solution costs less than `cost - gap`; 0: this one is optimal
  bool fits = true;  // false: nothing is within the capacity, and this is the lightest solution
};

KnapsackSolution solveKnapsack(std::span<const KnapsackGroup> groups, int64_t capacity,
                               uint64_t maxStates = kMaxKnapsackStates);

}  // namespace cinch
