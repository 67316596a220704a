// Finds the period of a stream of symbols: how many symbols back the stream has been repeating
// itself, and for how long. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cinch {

class PeriodFinder {
 public:
  // Longer periods are not found. A step of a job has hundreds of calls, seldom thousands.
  static constexpr uint32_t kMaxPeriod = 4096;

  // The next symbol, in time proportional to kMaxPeriod, or at once where none of so many has
  // mattered. `matters`: repeating structures without any such symbol are not remembered as broken.
  void feed(uint32_t symbol, bool matters);

  // The smallest period that has held for `times` as long as is needed: two periods, three times
  // the longest structure that broke, and enoughFor(word) symbols, where `word` is the last period.
  // It contains a symbol that matters.
  template <class EnoughFor>
  std::optional<uint32_t> period(uint32_t times, const EnoughFor& enoughFor) const;

  // For how many symbols a period has held, which the stream is long enough for.
  uint32_t heldFor(uint32_t period) const { return heldFor_[period]; }

  // The last `n` symbols, n <= kMaxPeriod.
  std::span<const uint32_t> last(uint32_t n) const { return std::span(history_).last(n); }

  // Forgets the stream, but not what broke.
  void restart();

  // A structure that was taken for a period has ended after `n` symbols.
  void broke(uint32_t n) { longestBroken_ = std::max(longestBroken_, n); }

  // The longest run of a structure that repeated itself at least once and then did not go on: what
  // holds for no longer than that may be a structure within a step, equal layers for example.
  uint32_t longestBroken() const { return longestBroken_; }

 private:
  void leaveOut();

  std::vector<uint32_t> history_;        // at least the last kMaxPeriod symbols
  std::vector<uint32_t> heldFor_ = {0};  // by period: symbols that equal the one a period before
  uint32_t sinceMatters_ = 0;            // symbols since one that matters
  uint32_t longestBroken_ = 0;
};

template <class EnoughFor>
std::optional<uint32_t> PeriodFinder::period(uint32_t times, const EnoughFor& enoughFor) const {
  const uint32_t longEnough = 3 * longestBroken_;
  for (uint32_t p = sinceMatters_ + 1; p < heldFor_.size(); ++p)
    if (heldFor_[p] >= times * std::max(2 * p, longEnough) &&
        heldFor_[p] >= times * enoughFor(last(p)))
      return p;
  return std::nullopt;
}

}  // namespace cinch
