#include "interpose/policy/strategy.h"

#include <algorithm>

namespace cinch {
namespace {

// Rounds between two trials that nothing gave cause for, where the two were equally fast.
constexpr uint64_t kRest = 64;
// Rounds after a trial in which what it found may not have taken effect.
constexpr uint64_t kShortRest = 2;

constexpr uint64_t times(uint64_t value, uint64_t percent) {
  return value / 100 * percent + value % 100 * percent / 100;
}

// One is `percent` of the other at least.
bool isFurtherApart(uint64_t a, uint64_t b, uint64_t percent) {
  return std::max(a, b) > times(std::min(a, b), percent);
}

}  // namespace

Strategy StrategyChooser::at(uint64_t turn) const {
  switch (modes_[turn / kRound % kRoundsKept]) {
    case Mode::pass:
      return Strategy::pass;
    case Mode::compress:
      return Strategy::compress;
    default:
      return turn % 2 == 0 ? Strategy::pass : Strategy::compress;
  }
}

void StrategyChooser::note(uint64_t turn, Strategy done, bool isTimed) {
  turns_[turn % turns_.size()] = {done, isTimed};
}

uint64_t StrategyChooser::medianOf(uint64_t round, std::span<const uint64_t> least,
                                   Strategy strategy) const {
  std::array<uint64_t, kRound> found;
  size_t n = 0;
  for (uint64_t i = 0; i < least.size() && i < kRound; ++i) {
    const Turn& turn = turns_[(round * kRound + i) % turns_.size()];
    if (turn.done == strategy && turn.isTimed && least[i] != kNotTimed)
      found[n++] = std::max<uint64_t>(least[i], 1);
  }
  if (n == 0) return 0;
  std::sort(found.begin(), found.begin() + static_cast<ptrdiff_t>(n));
  return found[(n - 1) / 2];
}

void StrategyChooser::hear(uint64_t round, std::span<const uint64_t> least) {
  const uint64_t pass = medianOf(round, least, Strategy::pass);
  const uint64_t compress = medianOf(round, least, Strategy::compress);
  const uint64_t next = round + 2;
  // A rank's host was far ahead of another's, which may be how the program is.
  if (least.empty() && isPooled(round)) quietUntil_ = round + 1 + kRest;
  Mode mode = steady();
  if (pass != 0 && compress != 0) {
    conclude(pass, compress);
    lastTrial_ = round;
    mode = isClose_ && nTrials_ == 1 ? Mode::trial : steady();
  } else if (const uint64_t time = choice_ == Strategy::pass ? pass : compress; time != 0) {
    if (isWorthATrial(round, time)) mode = Mode::trial;
  }
  // A trial that is still to come, or not yet heard, is enough.
  if (modes_[(next - 1) % kRoundsKept] == Mode::trial) mode = steady();
  if (mode == Mode::trial) lastTrial_ = next;
  modes_[next % kRoundsKept] = mode;
}

// What is done goes on unless the other one is clearly faster.
void StrategyChooser::conclude(uint64_t pass, uint64_t compress) {
  times_[0] = pass;
  times_[1] = compress;
  ++nTrials_;
  nDrifts_ = 0;
  isClose_ = !isFurtherApart(pass, compress, 130);
  if (!hasChosen_ || choice_ == Strategy::pass) {
    choice_ = times(compress, 105) < pass ? Strategy::compress : Strategy::pass;
  } else if (times(pass, 103) < compress) {
    choice_ = Strategy::pass;
  }
  hasChosen_ = true;
}

// A large drift is looked into at once; a small one when it lasts, and not too often.
bool StrategyChooser::isWorthATrial(uint64_t round, uint64_t time) {
  const uint64_t since = round - std::min(round, lastTrial_);
  if (!hasChosen_) return lastTrial_ == 0 || since > kRest;
  const uint64_t known = times_[static_cast<size_t>(choice_)];
  if (isFurtherApart(time, known, 200)) return since > kShortRest;
  nDrifts_ = isFurtherApart(time, known, 120) ? nDrifts_ + 1 : 0;
  return since > (nDrifts_ >= 2 ? restBetweenTrials() / 8 : restBetweenTrials());
}

// Half of a trial's turns do what was slower: so seldom that it costs a hundredth at most.
uint64_t StrategyChooser::restBetweenTrials() const {
  const uint64_t slow = std::max(times_[0], times_[1]), fast = std::min(times_[0], times_[1]);
  return std::max(kRest, std::min<uint64_t>(slow / std::max<uint64_t>(fast, 1), 1000) * 50);
}

}  // namespace cinch
