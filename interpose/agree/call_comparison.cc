#include "interpose/agree/call_comparison.h"

#include <algorithm>

#include "interpose/agree/control_reader.h"

namespace cinch {
namespace {

// Of fast ranks, until the slow ones have come so far: as many strides are 65,536 calls, more than
// a program can enqueue ahead; or the last calls of ranks that stand still at 16 places.
constexpr size_t kMostSeen = 1024;

// A rank whose calls wait for others is asked twice before it is known to stand still.
constexpr std::chrono::milliseconds kStandingStill = 3 * kTickTime;

}  // namespace

void CallComparison::add(size_t rank, const Trail& trail) {
  if (isTold_) return;
  alike_.resize(std::max(alike_.size(), rank + 1));
  uint64_t nCalls = trail.first;
  for (const uint64_t hash : trail.hashes) {
    compare(static_cast<uint32_t>(rank), nCalls, hash);
    nCalls += trail.stride;
  }
  while (seen_.size() > kMostSeen) seen_.erase(seen_.begin());
  if (!found_) return;
  found_->alike = std::min({alike_[found_->rank], alike_[found_->other], found_->differs - 1});
  const bool isExact = found_->alike + 1 == found_->differs;
  if (isExact) due_ = Clock::now();
  if (due_ == kNoDeadline) due_ = deadlineIn(kStandingStill);
}

// Ranks that differed once differ for ever: a later hash is one of all calls before.
void CallComparison::compare(uint32_t rank, uint64_t nCalls, uint64_t hash) {
  if (nCalls == 0 || (found_ && nCalls >= found_->differs)) return;
  const auto [at, isFirst] = seen_.try_emplace(nCalls, Seen{hash, rank});
  if (isFirst || at->second.rank == rank) return;
  if (at->second.hash == hash)
    for (const uint32_t each : {rank, at->second.rank})
      alike_[each] = std::max(alike_[each], nCalls);
  else
    found_ = Difference{0, nCalls, rank, at->second.rank};
}

std::optional<Difference> CallComparison::takeDue(Clock::time_point now) {
  if (!found_ || isTold_ || now < due_) return {};
  isTold_ = true;
  due_ = kNoDeadline;
  seen_.clear();
  return found_;
}

}  // namespace cinch
