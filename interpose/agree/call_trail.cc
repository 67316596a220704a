#include "interpose/agree/call_trail.h"

#include <algorithm>

#include "common/byte_order.h"
#include "common/hash.h"

namespace cinch {
namespace {

template <size_t N>
uint64_t hashNumbers(const uint64_t (&numbers)[N]) {
  uint8_t bytes[sizeof numbers];
  for (size_t i = 0; i < N; ++i) storeLittle(numbers[i], bytes + i * sizeof(uint64_t));
  return hashBytes(bytes, sizeof bytes);
}

}  // namespace

uint64_t CallTrail::hashOf(const Decision& decision) {
  return hashNumbers({decision.topic, hashBytes(decision.bytes.data(), decision.bytes.size())});
}

// A call that is claimed again, after it was taken back, is not given again what was decided before
// it: that is still known of the first time.
void CallTrail::claim(uint64_t number, uint64_t call, std::span<const Decision> decided) {
  const std::lock_guard lock(mutex_);
  if (number + kKept <= highest_) isLost_ = true;
  const bool isAgain = number < highest_;
  claimed_ = number + 1;
  highest_ = std::max(highest_, claimed_);
  if (isLost_) return;
  Call& own = calls_[number % kKept];
  if (!isAgain) own.decided = 0;
  for (const Decision& decision : decided)
    own.decided = hashNumbers({own.decided, hashOf(decision)});
  own.call = call;
  const uint64_t before = number == 0 ? 0 : calls_[(number - 1) % kKept].hash;
  own.hash = hashNumbers({before, call, own.decided});
  if (claimed_ % kTrailStride == 0) strides_[claimed_ / kTrailStride % kStridesKept] = own.hash;
}

void CallTrail::takeBack() {
  if (isForked()) return;
  const std::lock_guard lock(mutex_);
  if (claimed_ > 0) --claimed_;
}

void CallTrail::confirm() {
  if (isForked()) return;
  const std::lock_guard lock(mutex_);
  confirmed_ = claimed_;
}

std::optional<Trail> CallTrail::take() {
  const std::lock_guard lock(mutex_);
  const bool isStill = told_.asked == confirmed_;
  told_.asked = confirmed_;
  if (isLost_) return {};
  return isStill ? lastCalls() : strides();
}

std::optional<Trail> CallTrail::strides() {
  // Calls that were claimed, though not confirmed, have taken the places of older ones.
  const uint64_t last = highest_ / kTrailStride;
  const uint64_t from = std::max(told_.strides + 1, last - std::min(last, kStridesKept - 1));
  Trail trail{from * kTrailStride, kTrailStride, {}};
  for (uint64_t at = from; at * kTrailStride <= confirmed_; told_.strides = at++)
    trail.hashes.push_back(strides_[at % kStridesKept]);
  return trail.hashes.empty() ? std::optional<Trail>() : trail;
}

std::optional<Trail> CallTrail::lastCalls() {
  if (told_.calls == confirmed_) return {};
  told_.calls = confirmed_;
  // Likewise.
  const uint64_t kept = highest_ - std::min(highest_, kKept);
  Trail trail{std::max(confirmed_ - std::min(confirmed_, kTrailStride), kept) + 1, 1, {}};
  for (uint64_t at = trail.first; at <= confirmed_; ++at)
    trail.hashes.push_back(calls_[(at - 1) % kKept].hash);
  return trail.hashes.empty() ? std::optional<Trail>() : trail;
}

void CallTrail::onDifference(std::function<void(const Difference&)> listener) {
  std::optional<Difference> before;
  {
    const std::lock_guard lock(mutex_);
    found_.listener = listener;
    before = found_.difference;
  }
  if (before) listener(*before);
}

void CallTrail::receive(const Difference& difference) {
  std::function<void(const Difference&)> listener;
  {
    const std::lock_guard lock(mutex_);
    if (found_.difference) return;
    found_.difference = difference;
    listener = found_.listener;
  }
  found_.isThere.store(true);
  if (listener) listener(difference);
}

std::optional<Difference> CallTrail::difference() const {
  if (isForked() || !found_.isThere.load() || !found_.matters.load()) return {};
  const std::lock_guard lock(mutex_);
  return found_.difference;
}

std::optional<uint64_t> CallTrail::callAt(uint64_t number) const {
  const std::lock_guard lock(mutex_);
  if (isLost_ || number >= confirmed_ || number + kKept < highest_) return {};
  return calls_[number % kKept].call;
}

}  // namespace cinch
