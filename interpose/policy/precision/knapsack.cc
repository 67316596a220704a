#include "interpose/policy/precision/knapsack.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace cinch {
namespace {

using Wide = __int128;  // products of a total cost and a total weight

struct Option {
  int64_t cost;
  int64_t weight;
  uint32_t index;  // in the group as given
};
using Options = std::vector<Option>;

// The options that no other one beats, by rising weight and falling cost.
Options frontierOf(const KnapsackGroup& group) {
  Options options;
  for (uint32_t i = 0; i < group.size(); ++i)
    options.push_back({group[i].cost, group[i].weight, i});
  std::ranges::sort(options, [](const Option& a, const Option& b) {
    return std::tie(a.weight, a.cost, a.index) < std::tie(b.weight, b.cost, b.index);
  });
  Options frontier;
  for (const Option& option : options)
    if (frontier.empty() || option.cost < frontier.back().cost) frontier.push_back(option);
  return frontier;
}

// Whether b is of no use to a solution that may mix a and c.
bool isAboveLine(const Option& a, const Option& b, const Option& c) {
  return Wide{a.cost - b.cost} * (c.weight - b.weight) <=
         Wide{b.cost - c.cost} * (b.weight - a.weight);
}

// The lower convex hull of a frontier.
Options hullOf(const Options& frontier) {
  Options hull;
  for (const Option& option : frontier) {
    while (hull.size() > 1 && isAboveLine(hull[hull.size() - 2], hull.back(), option))
      hull.pop_back();
    hull.push_back(option);
  }
  return hull;
}

// From one option of a group's hull to the next.
struct Upgrade {
  uint32_t group;
  uint32_t index;  // of the heavier option, in the group as given
  int64_t saved;   // of the cost
  int64_t weight;
};

// The linear relaxation of the groups that are still open: from their lightest options on, upgrades
// in the order of what they save per weight, the last one in part.
class Relaxation {
 public:
  explicit Relaxation(const std::vector<Options>& frontiers) {
    for (uint32_t group = 0; group < frontiers.size(); ++group)
      addGroup(group, hullOf(frontiers[group]));
    std::ranges::stable_sort(upgrades_, [](const Upgrade& a, const Upgrade& b) {
      return Wide{a.saved} * b.weight > Wide{b.saved} * a.weight;
    });
    sum();
  }

  void keepOnly(const std::vector<bool>& isOpen) {
    std::erase_if(upgrades_, [&](const Upgrade& upgrade) { return !isOpen[upgrade.group]; });
    sum();
  }

  size_t size() const { return upgrades_.size(); }
  const Upgrade& operator[](size_t i) const { return upgrades_[i]; }
  // Of the first `n` upgrades.
  int64_t saved(size_t n) const { return saved_[n]; }
  int64_t weight(size_t n) const { return weight_[n]; }

 private:
  void addGroup(uint32_t group, const Options& hull) {
    for (size_t i = 1; i < hull.size(); ++i)
      upgrades_.push_back({group, hull[i].index, hull[i - 1].cost - hull[i].cost,
                           hull[i].weight - hull[i - 1].weight});
  }

  void sum() {
    saved_.assign(1, 0);
    weight_.assign(1, 0);
    for (const Upgrade& upgrade : upgrades_) {
      saved_.push_back(saved_.back() + upgrade.saved);
      weight_.push_back(weight_.back() + upgrade.weight);
    }
  }

  std::vector<Upgrade> upgrades_;
  std::vector<int64_t> saved_;
  std::vector<int64_t> weight_;
};

// Costs of all solutions are equal modulo this.
int64_t costStep(const std::vector<Options>& frontiers) {
  int64_t step = 0;
  for (const Options& frontier : frontiers)
    for (const Option& option : frontier) step = std::gcd(step, option.cost - frontier[0].cost);
  return std::max<int64_t>(step, 1);
}

// Decides group after group. A state stands for all solutions that share its options of the groups
// decided so far; of two states, one that beats the other in both cost and weight is enough.
class Search {
 public:
  Search(std::vector<Options> frontiers, int64_t capacity)
      : capacity_(capacity),
        frontiers_(std::move(frontiers)),
        step_(costStep(frontiers_)),
        open_(frontiers_),
        isOpen_(frontiers_.size(), true) {
    State lightest{0, 0, kNoStep};
    for (const Options& frontier : frontiers_) {
      settled_.push_back(frontier[0].index);
      lightest.cost += frontier[0].cost;
      lightest.weight += frontier[0].weight;
    }
    best_ = {settled_, lightest.cost, lightest.weight, 0, lightest.weight <= capacity};
    if (best_.fits) states_.push_back(lightest);
  }

  KnapsackSolution run(uint64_t maxStates) && {
    findPrice();
    prune();
    for (const Group& group : coarseFirst()) {
      const uint64_t nMore = states_.size() * frontiers_[group.number].size();
      if (isDone() || nStates_ + nMore > maxStates) break;
      decide(group);
    }
    closeDecided();
    if (!isDone()) best_.gap = best_.cost - lowerBound();
    return std::move(best_);
  }

 private:
  static constexpr uint32_t kNoStep = UINT32_MAX;
  // Pruning walks over all open upgrades: not for a handful of states.
  static constexpr size_t kUpgradesPerState = 32;

  struct Group {
    uint32_t number;
    int64_t range;    // of the weights
    Wide leastValue;  // of its options, at the price
  };
  struct State {
    int64_t cost;  // with the lightest options of the groups that are open
    int64_t weight;
    uint32_t lastStep;
  };
  // How a state came about, from the last decision between several options back.
  struct Step {
    uint32_t previous;
    uint32_t group;
    uint32_t index;  // as given
  };
  // What a unit of weight is worth where the relaxation uses up the capacity: cost / weight.
  struct Price {
    int64_t cost = 0;
    int64_t weight = 1;
  };

  // Nothing better than the best solution found is left to find.
  bool isDone() const { return states_.empty() || slack() < 0; }

  void findPrice() {
    if (states_.empty()) return;
    const size_t taken = nThatFit(capacity_ - states_[0].weight, 0);
    if (taken < open_.size()) price_ = {open_[taken].saved, open_[taken].weight};
  }

  // How many upgrades, in their order, fit into what is left of the capacity; at least `taken`.
  size_t nThatFit(int64_t left, size_t taken) const {
    while (taken < open_.size() && open_.weight(taken + 1) <= left) ++taken;
    return taken;
  }

  // Times the price's denominator.
  Wide valueOf(int64_t cost, int64_t weight) const {
    return Wide{cost} * price_.weight + Wide{weight} * price_.cost;
  }
  Wide valueOf(const Option& option) const { return valueOf(option.cost, option.weight); }

  // What the options of a solution that is better than the best one found may, in all, be worth
  // more than the groups' least.
  Wide slack() const { return valueOf(best_.cost - step_, capacity_) - leastValue_; }

  // Groups of wide range first: the finer the open groups are, the closer do they come to the
  // relaxation, in which they fill the capacity exactly.
  std::vector<Group> coarseFirst() {
    std::vector<Group> groups;
    for (uint32_t i = 0; i < frontiers_.size(); ++i) {
      const Options& frontier = frontiers_[i];
      Wide least = valueOf(frontier[0]);
      for (const Option& option : frontier) least = std::min(least, valueOf(option));
      groups.push_back({i, frontier.back().weight - frontier[0].weight, least});
      leastValue_ += least;
    }
    std::ranges::stable_sort(groups,
                             [](const Group& a, const Group& b) { return a.range > b.range; });
    return groups;
  }

  void decide(const Group& group) {
    Options options;
    for (const Option& option : frontiers_[group.number])
      if (valueOf(option) - group.leastValue <= slack()) options.push_back(option);
    isOpen_[group.number] = false;
    if (options.size() == 1) return settle(group.number, options[0]);
    before_.swap(states_);
    states_.clear();
    for (const Option& option : options) mergeWith(group.number, option);
    if (states_.size() * kUpgradesPerState > open_.size()) closeDecided();
  }

  // Decides alike for all states; they change in closeDecided().
  void settle(uint32_t group, const Option& option) {
    settled_[group] = option.index;
    settledCost_ += option.cost - frontiers_[group][0].cost;
    settledWeight_ += option.weight - frontiers_[group][0].weight;
  }

  void closeDecided() {
    open_.keepOnly(isOpen_);
    for (State& state : states_) {
      state.cost += settledCost_;
      state.weight += settledWeight_;
    }
    settledCost_ = settledWeight_ = 0;
    prune();
  }

  // Merges `states_` with `before_`, each with this option: of all, those that none beats.
  void mergeWith(uint32_t group, const Option& option) {
    const Option& lightest = frontiers_[group][0];
    merged_.clear();
    auto other = states_.begin();
    for (const State& state : before_) {
      const State changed{state.cost + option.cost - lightest.cost,
                          state.weight + option.weight - lightest.weight,
                          static_cast<uint32_t>(steps_.size())};
      while (other != states_.end() && !isBefore(changed, *other)) keep(*other++);
      if (keep(changed)) steps_.push_back({state.lastStep, group, option.index});
    }
    while (other != states_.end()) keep(*other++);
    nStates_ += merged_.size();
    states_.swap(merged_);
  }

  static bool isBefore(const State& a, const State& b) {
    return std::tie(a.weight, a.cost) < std::tie(b.weight, b.cost);
  }

  // States come by rising weight.
  bool keep(const State& state) {
    if (!merged_.empty() && state.cost >= merged_.back().cost) return false;
    merged_.push_back(state);
    return true;
  }

  // Completes every state with the upgrades that fit, in the relaxation's order, and drops it where
  // not even a part of the next one could make it better than the best solution found.
  void prune() {
    size_t taken = open_.size();
    std::erase_if(states_, [&](const State& state) {
      const int64_t left = capacity_ - state.weight;
      if (left < 0) return true;
      while (open_.weight(taken) > left) --taken;
      const int64_t cost = state.cost - open_.saved(taken);
      if (cost < best_.cost) take(state, taken);
      if (taken == open_.size()) return true;
      return Wide{cost - (best_.cost - step_)} * open_[taken].weight >
             Wide{left - open_.weight(taken)} * open_[taken].saved;
    });
  }

  // The best solution found: the state with the first `nUpgrades` of the open groups.
  void take(const State& state, size_t nUpgrades) {
    best_.chosen = settled_;
    for (size_t i = 0; i < nUpgrades; ++i) best_.chosen[open_[i].group] = open_[i].index;
    for (uint32_t at = state.lastStep; at != kNoStep; at = steps_[at].previous)
      best_.chosen[steps_[at].group] = steps_[at].index;
    best_.cost = state.cost - open_.saved(nUpgrades);
    best_.weight = state.weight + open_.weight(nUpgrades);
  }

  // No solution costs less. The states have been pruned: none is completed by all upgrades.
  int64_t lowerBound() const {
    int64_t bound = best_.cost;
    for (const State& state : states_) {
      const int64_t left = capacity_ - state.weight;
      const size_t taken = nThatFit(left, 0);
      const Wide part = Wide{left - open_.weight(taken)} * open_[taken].saved / open_[taken].weight;
      bound = std::min(bound, state.cost - open_.saved(taken) - static_cast<int64_t>(part));
    }
    return bound;
  }

  const int64_t capacity_;
  const std::vector<Options> frontiers_;
  const int64_t step_;
  Relaxation open_;  // of the groups that are open
  std::vector<bool> isOpen_;
  Price price_;
  Wide leastValue_ = 0;  // of all groups

  KnapsackSolution best_;
  std::vector<State> states_;  // by rising weight and falling cost
  std::vector<State> before_;  // the same, before the group that is being decided
  std::vector<State> merged_;  // the next `states_`
  std::vector<Step> steps_;
  std::vector<uint32_t> settled_;  // by group: the option where no step says otherwise
  int64_t settledCost_ = 0;        // not yet in `states_`
  int64_t settledWeight_ = 0;
  uint64_t nStates_ = 0;
};

}  // namespace

KnapsackSolution solveKnapsack(std::span<const KnapsackGroup> groups, int64_t capacity,
                               uint64_t maxStates) {
  std::vector<Options> frontiers;
  for (const KnapsackGroup& group : groups) frontiers.push_back(frontierOf(group));
  return Search(std::move(frontiers), capacity).run(maxStates);
}

}  // namespace cinch
