#include "interpose/policy/strategy.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace cinch {
namespace {

// Rounds between two trials that nothing gave cause for, where all were equally fast.
constexpr uint64_t kRest = 64;
// Rounds after which the figures of one are heard at the latest.
constexpr uint64_t kLongestDelay = 16;
// Rounds after a trial in which what it found may not have taken effect.
constexpr uint64_t kShortRest = 2;
constexpr uint32_t kMostInVain = 5;  // doublings

// Trials whose results are close follow one another up to this many.
constexpr uint32_t kLongestSeries = 3;
constexpr uint64_t kClosePercent = 150;

constexpr uint64_t percentOf(uint64_t value, uint64_t percent) {
  return value / 100 * percent + value % 100 * percent / 100;
}

// One is more than `percent` of the other.
bool isFurtherApart(uint64_t a, uint64_t b, uint64_t percent) {
  return std::max(a, b) > percentOf(std::min(a, b), percent);
}

}  // namespace

Strategy StrategyChooser::tried(uint64_t turn) const {
  constexpr Strategy p = Strategy::pass, c = Strategy::compress, q = Strategy::quick;
  constexpr std::array<Strategy, kRound> ofTwo = {p, p, p, c, c, c, c, c};
  constexpr std::array<Strategy, kRound> ofThree = {p, p, p, c, c, c, q, q};
  return (mayBeQuick_ ? ofThree : ofTwo)[turn % kRound];
}

bool StrategyChooser::followsItsLike(uint64_t turn) const {
  return turn % kRound != 0 && tried(turn) == tried(turn - 1);
}

Strategy StrategyChooser::at(uint64_t turn) const {
  const Mode& mode = modeOf(turn / kRound);
  if (mode.isTrial) return tried(turn);
  return mode.strategy == Strategy::quick && !mayBeQuick_ ? choice_ : mode.strategy;
}

void StrategyChooser::dropQuick() {
  if (!mayBeQuick_) return;
  mayBeQuick_ = false;
  times_[static_cast<size_t>(Strategy::quick)] = 0;
  if (choice_ != Strategy::quick) return;
  choice_ = Strategy::compress;
  if (time(Strategy::pass) != 0 && time(Strategy::pass) < time(Strategy::compress))
    choice_ = Strategy::pass;
  level_ = 0;
  nDrifts_ = 0;
}

bool StrategyChooser::isTimed(uint64_t turn) const {
  return modeOf(turn / kRound).isTrial ? turn == 0 || followsItsLike(turn) : turn % 2 == 1;
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

// A rank's host was far ahead of another's, which may be how the program is.
void StrategyChooser::noteFailure(uint64_t round) {
  rest_ = std::min(2 * rest_, kRest);
  quietUntil_ = round + 1 + rest_;
}

// Nobody's calls had ended that were to be timed.
bool StrategyChooser::wasTooEarly(uint64_t round, std::span<const uint64_t> least) const {
  bool isExpected = false;
  for (uint64_t i = 0; i < least.size() && i < kRound; ++i) {
    if (least[i] != kNotTimed) return false;
    isExpected = isExpected || isTimed(round * kRound + i);
  }
  return isExpected;
}

void StrategyChooser::hear(uint64_t round, std::span<const uint64_t> least) {
  const uint64_t next = round + delay_;
  if (isPooled(round)) {
    if (least.empty())
      noteFailure(round);
    else
      rest_ = 1;
  }
  if (wasTooEarly(round, least)) delay_ = std::min(2 * delay_, kLongestDelay);
  Times found{};
  for (size_t i = 0; i < kStrategies; ++i)
    found[i] = medianOf(round, least, static_cast<Strategy>(i));
  const uint64_t time = found[static_cast<size_t>(choice_)];
  bool tries = false;
  if (found[0] != 0 && found[1] != 0) {
    lastTrial_ = round;
    tries = conclude(found);
  } else {
    // What a trial that was lost would have been held against is old by the time of the next.
    if (modeOf(round).isTrial) nInSeries_ = 0;
    if (time != 0) tries = isWorthATrial(round, time);
  }
  // One that is still to come, or not yet heard, is enough.
  for (uint64_t earlier = round + 1; earlier < next; ++earlier)
    tries = tries && !modeOf(earlier).isTrial;
  const uint64_t last = round + delay_;
  if (tries) lastTrial_ = last;
  for (uint64_t mode = next; mode <= last; ++mode)
    modes_[mode % kRoundsKept] = {tries && mode == last, choice_};
}

// A link lets more through at once after a pause, which one call may have had. Quick calls, which
// send more than compressed ones, have to be faster without it: of two times in a series the larger
// counts, of three the middle one.
void StrategyChooser::noteQuick(uint64_t time) {
  if (time == 0 || !mayBeQuick_) return;
  quick_.push_back(time);
  std::sort(quick_.begin(), quick_.end());
  times_[static_cast<size_t>(Strategy::quick)] = quick_[quick_.size() / 2];
}

// True where another trial is to follow at once.
bool StrategyChooser::conclude(const Times& found) {
  if (nInSeries_ == 0) {
    times_ = {};
    quick_.clear();
    beforeSeries_ = choice_;
  }
  for (const Strategy each : {Strategy::pass, Strategy::compress}) {
    const auto i = static_cast<size_t>(each);
    if (times_[i] == 0 || (found[i] != 0 && found[i] < times_[i])) times_[i] = found[i];
  }
  noteQuick(found[static_cast<size_t>(Strategy::quick)]);
  ++nTrials_;
  choose();
  level_ = 0;
  nDrifts_ = 0;
  nLarge_ = 0;
  nInSeries_ = isUnsure() && nInSeries_ + 1 < kLongestSeries ? nInSeries_ + 1 : 0;
  if (nInSeries_ > 0) return true;
  nInVain_ = choice_ == beforeSeries_ ? std::min(nInVain_ + 1, kMostInVain) : 0;
  wasDoubted_ = wasDoubted_ && choice_ == beforeSeries_;
  return false;
}

bool StrategyChooser::isUnsure() const {
  const bool isNew = choice_ == Strategy::quick && beforeSeries_ != Strategy::quick;
  const bool isOdd = quick_.size() == 2 && isFurtherApart(quick_[0], quick_[1], 200);
  return isClose() || isOdd || (isNew && quick_.size() < 2);
}

// What is done goes on unless another one is clearly faster; at first that is to pass.
void StrategyChooser::choose() {
  if (!hasChosen_) choice_ = Strategy::pass;
  hasChosen_ = true;
  const uint64_t own = time(choice_);
  // What no trial has shown cannot be compared.
  if (own == 0) return;
  size_t best = static_cast<size_t>(choice_);
  for (size_t i = 0; i < kStrategies; ++i)
    if (times_[i] != 0 && percentOf(times_[i], 105) < own && times_[i] < times_[best]) best = i;
  choice_ = static_cast<Strategy>(best);
}

bool StrategyChooser::isClose() const {
  for (size_t i = 0; i < kStrategies; ++i)
    if (i != static_cast<size_t>(choice_) && times_[i] != 0 &&
        !isFurtherApart(times_[i], time(choice_), kClosePercent))
      return true;
  return false;
}

// A link that had been idle lets the few calls of a trial through at once, as large as its store
// is, and holds up those that follow.
bool StrategyChooser::isDoubtful() const {
  return !wasDoubted_ && time(choice_) != 0 && level_ > percentOf(time(choice_), 200);
}

// A large drift is looked into at once; a small one when it lasts, and not too often. Where trials
// keep changing nothing, it is noise: each is twice as far from the last, until there was a rest,
// or unless the drift stays where it is.
bool StrategyChooser::isWorthATrial(uint64_t round, uint64_t time) {
  const uint64_t since = round - std::min(round, lastTrial_);
  if (!hasChosen_) return lastTrial_ == 0 || since > kRest;
  if (level_ == 0) level_ = time;
  if (isDoubtful() && since > kShortRest) {
    wasDoubted_ = true;
    return true;
  }
  if (since > kRest) nInVain_ = 0;
  const uint64_t patience = kShortRest << nInVain_;
  const int large = !isFurtherApart(time, level_, 200) ? 0 : time > level_ ? 1 : -1;
  nLarge_ = large == 0 ? 0 : large * nLarge_ > 0 ? nLarge_ + large : large;
  if (large != 0) return since > (std::abs(nLarge_) >= 2 ? kShortRest : patience);
  nDrifts_ = isFurtherApart(time, level_, 120) ? nDrifts_ + 1 : 0;
  const uint64_t rest = restBetweenTrials();
  return since > (nDrifts_ >= 2 ? std::max(rest / 8, patience) : rest);
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
