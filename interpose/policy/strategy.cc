#include "interpose/policy/strategy.h"

#include <algorithm>
#include <vector>

namespace cinch {
namespace {

// Rounds between two trials that nothing gave cause for, where all were equally fast.
constexpr uint64_t kRest = 64;
// Rounds after a trial in which what it found may not have taken effect.
constexpr uint64_t kShortRest = 2;

constexpr uint64_t percentOf(uint64_t value, uint64_t percent) {
  return value / 100 * percent + value % 100 * percent / 100;
}

// One is more than `percent` of the other.
bool isFurtherApart(uint64_t a, uint64_t b, uint64_t percent) {
  return std::max(a, b) > percentOf(std::min(a, b), percent);
}

}  // namespace

Strategy StrategyChooser::tried(uint64_t turn) const {
  if (!mayBeQuick_) return turn % 2 == 0 ? Strategy::pass : Strategy::compress;
  constexpr Strategy p = Strategy::pass, c = Strategy::compress, q = Strategy::quick;
  constexpr std::array<Strategy, kRound> order = {p, c, q, p, c, q, c, q};
  return order[turn % kRound];
}

// In round 0 what passes has passed.
Strategy StrategyChooser::at(uint64_t turn) const {
  if (turn < kRound && mayBeQuick_ && turn % 2 == 1) return Strategy::quick;
  const Mode& mode = modeOf(turn / kRound);
  return mode.isTrial ? tried(turn) : mode.strategy;
}

bool StrategyChooser::isTimed(uint64_t turn) const {
  return turn < kRound || modeOf(turn / kRound).isTrial || turn % 2 == 1;
}

void StrategyChooser::note(uint64_t turn, Strategy done, bool isTypical) {
  turns_[turn % turns_.size()] = {done, isTypical};
}

uint64_t StrategyChooser::medianOf(uint64_t round, std::span<const uint64_t> least,
                                   Strategy strategy) const {
  std::vector<uint64_t> found;
  for (uint64_t i = 0; i < least.size() && i < kRound; ++i) {
    const Turn& turn = turns_[(round * kRound + i) % turns_.size()];
    if (turn.done == strategy && turn.isTypical && least[i] != kNotTimed)
      found.push_back(std::max<uint64_t>(least[i], 1));
  }
  if (found.empty()) return 0;
  std::sort(found.begin(), found.end());
  return found[(found.size() - 1) / 2];
}

void StrategyChooser::hear(uint64_t round, std::span<const uint64_t> least) {
  const uint64_t next = round + 2;
  // A rank's host was far ahead of another's, which may be how the program is.
  if (least.empty() && isPooled(round)) quietUntil_ = round + 1 + kRest;
  Times found;
  for (size_t i = 0; i < kStrategies; ++i)
    found[i] = medianOf(round, least, static_cast<Strategy>(i));
  const uint64_t time = found[static_cast<size_t>(choice_)];
  bool tries = false;
  if (found[0] != 0 && found[1] != 0) {
    conclude(found);
    lastTrial_ = round;
    tries = isClose_ && nTrials_ == 1;
  } else if (time != 0) {
    tries = isWorthATrial(round, time);
  }
  // One that is still to come, or not yet heard, is enough.
  if (modeOf(next - 1).isTrial) tries = false;
  if (tries) lastTrial_ = next;
  modes_[next % kRoundsKept] = {tries, choice_};
}

// What is done goes on unless another one is clearly faster; at first that is to pass.
void StrategyChooser::conclude(const Times& found) {
  if (!hasChosen_) choice_ = Strategy::pass;
  hasChosen_ = true;
  times_ = found;
  ++nTrials_;
  nDrifts_ = 0;
  isClose_ = false;
  // What the trial did not show of what is done cannot be compared.
  if (const uint64_t own = time(choice_); own != 0) {
    size_t best = static_cast<size_t>(choice_);
    for (size_t i = 0; i < kStrategies; ++i)
      if (found[i] != 0 && percentOf(found[i], 105) < own && found[i] < found[best]) best = i;
    choice_ = static_cast<Strategy>(best);
  }
  for (size_t i = 0; i < kStrategies; ++i)
    if (i != static_cast<size_t>(choice_) && found[i] != 0)
      isClose_ = isClose_ || !isFurtherApart(found[i], time(choice_), 130);
}

// A large drift is looked into at once; a small one when it lasts, and not too often.
bool StrategyChooser::isWorthATrial(uint64_t round, uint64_t time) {
  const uint64_t since = round - std::min(round, lastTrial_);
  if (!hasChosen_) return lastTrial_ == 0 || since > kRest;
  const uint64_t known = times_[static_cast<size_t>(choice_)];
  if (known == 0 || isFurtherApart(time, known, 200)) return since > kShortRest;
  nDrifts_ = isFurtherApart(time, known, 120) ? nDrifts_ + 1 : 0;
  return since > (nDrifts_ >= 2 ? restBetweenTrials() / 8 : restBetweenTrials());
}

// Much of a trial's turns do what was slower: so seldom that it costs a hundredth at most.
uint64_t StrategyChooser::restBetweenTrials() const {
  uint64_t slow = 1, fast = UINT64_MAX;
  for (const uint64_t time : times_) {
    if (time == 0) continue;
    slow = std::max(slow, time);
    fast = std::min(fast, time);
  }
  return std::max(kRest, std::min<uint64_t>(slow / std::min(fast, slow), 1000) * 50);
}

}  // namespace cinch
