#include "interpose/policy/period_finder.h"

namespace cinch {
namespace {

// The history is moved to the front only now and then.
constexpr size_t kMaxHistory = 4 * size_t{PeriodFinder::kMaxPeriod};

}  // namespace

void PeriodFinder::feed(uint32_t symbol, bool matters) {
  if (!matters && sinceMatters_ >= kMaxPeriod) return leaveOut();
  if (history_.size() == kMaxHistory) history_.erase(history_.begin(), history_.end() - kMaxPeriod);
  if (heldFor_.size() <= std::min<size_t>(history_.size(), kMaxPeriod)) heldFor_.push_back(0);
  const uint32_t* const end = history_.data() + history_.size();
  uint32_t* const heldFor = heldFor_.data();
  const auto nPeriods = static_cast<uint32_t>(heldFor_.size());
  uint32_t longestBroken = longestBroken_;
  for (uint32_t p = 1; p < nPeriods; ++p) {  // without branches: the compiler makes vectors of it
    const uint32_t before = heldFor[p];
    const bool holds = end[-static_cast<ptrdiff_t>(p)] == symbol;
    const bool isBroken = !holds & (before >= p) & (p > sinceMatters_);
    longestBroken = std::max(longestBroken, isBroken ? before : 0);
    heldFor[p] = holds ? before + 1 : 0;
  }
  longestBroken_ = longestBroken;
  history_.push_back(symbol);
  sinceMatters_ = matters ? 0 : sinceMatters_ + 1;
}

// The last symbol that mattered is farther back than any period reaches, so there is none until the
// next one: programs that make small calls only, over and over, need not pay for the search.
void PeriodFinder::leaveOut() {
  restart();
  sinceMatters_ = kMaxPeriod;
}

void PeriodFinder::restart() {
  history_.clear();
  heldFor_.assign(1, 0);
  sinceMatters_ = 0;
}

}  // namespace cinch
