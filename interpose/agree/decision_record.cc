#include "interpose/agree/decision_record.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "interpose/agree/agreement_wire.h"

namespace cinch {
namespace {

// A promise is asked for, given, answered: of the calls that a rank made from its promise to the
// outcome, which is one way there and back, four times as many fit into a slow one.
constexpr uint64_t kRoundTrips = 4;
// What was needed once is forgotten by an eighth with each decision: a step that began while ranks
// were asked is no measure of all that come.
constexpr uint64_t kForgotten = 8;
constexpr uint64_t kMostAhead = uint64_t{1} << 20;

}  // namespace

DecisionRecord::State DecisionRecord::state() const {
  if (!mark_ || claimed_ < mark_->ordinal) return State::free;
  return ended_ ? State::inDoubt : State::marked;
}

std::vector<Decision> DecisionRecord::claim() {
  const uint64_t ordinal = claimed_++;
  highest_ = std::max(highest_, claimed_);
  std::vector<Decision> now;
  auto done = committed_.begin();
  for (; done != committed_.end() && done->ordinal <= ordinal; ++done)
    std::ranges::move(done->decisions, std::back_inserter(now));
  committed_.erase(committed_.begin(), done);
  return now;
}

void DecisionRecord::takeBack() {
  if (claimed_ > 0) --claimed_;
}

uint64_t DecisionRecord::lead() const {
  return std::max(isWary_ ? period_ : 0, advance_);
}

Result<std::optional<Prepared>> DecisionRecord::prepare(const Prepare& message, bool isBusy) {
  if (ended_) return std::optional<Prepared>();
  if (mark_) return errorf(Status::remoteError, "two proposals at the same time");
  const bool isClaimed = std::max(highest_, openBelow_) > message.ordinal;
  const bool accepts = !isClaimed && !isBusy;
  if (accepts) {
    mark_ = {message.round, message.ordinal, highest_};
    hasWaited_ = false;
  }
  const auto answer = accepts     ? Prepared::Answer::accepted
                      : isClaimed ? Prepared::Answer::claimed
                                  : Prepared::Answer::busy;
  return std::optional(Prepared{message.round, answer, highest_, lead()});
}

// Most programs wait for their device in every step, while control threads need a tenth of a
// millisecond: the next call will do. Of one that had to wait, it is a step from then on: it may
// have been in the middle of one, and will not be further by then. A wait again means that the call
// was too close by half at least.
void DecisionRecord::forgetMark() {
  const uint64_t asked = mark_->ordinal - std::min(mark_->ordinal, mark_->claimedBefore);
  const uint64_t needed = hasWaited_ ? 2 * asked : kRoundTrips * (highest_ - mark_->claimedBefore);
  advance_ = std::min(std::max(advance_ - advance_ / kForgotten, needed), kMostAhead);
  isWary_ = isWary_ || hasWaited_;
  mark_.reset();
}

Result<void> DecisionRecord::commit(const Commit& message) {
  if (ended_ && !mark_) return {};
  if (!mark_ || mark_->round != message.round || mark_->ordinal != message.ordinal)
    return errorf(Status::remoteError, "a decision that this rank has not accepted");
  const auto after = std::ranges::upper_bound(committed_, message.ordinal, {}, &Committed::ordinal);
  committed_.insert(after, {message.ordinal, message.decisions});
  forgetMark();  // not before it is there
  return {};
}

Result<void> DecisionRecord::withdraw(const Withdraw& message) {
  if (ended_ && !mark_) return {};
  if (mark_ && mark_->round != message.round)
    return errorf(Status::remoteError, "it withdraws another proposal than the one it has made");
  if (mark_) forgetMark();
  openBelow_ = std::max(openBelow_, message.openBelow);
  return {};
}

const DecisionRecord::Committed* DecisionRecord::committedWith(uint64_t topic) const {
  const auto holds = [&](const Committed& committed) {
    return std::ranges::find(committed.decisions, topic, &Decision::topic) !=
           committed.decisions.end();
  };
  const auto found = std::ranges::find_if(committed_, holds);
  return found == committed_.end() ? nullptr : &*found;
}

const Decision* DecisionRecord::findCommitted(uint64_t topic) const {
  const Committed* const committed = committedWith(topic);
  if (committed == nullptr) return nullptr;
  return &*std::ranges::find(committed->decisions, topic, &Decision::topic);
}

std::optional<bool> DecisionRecord::isInForceAtNext(uint64_t topic) const {
  if (const Committed* const committed = committedWith(topic))
    return committed->ordinal <= claimed_;
  if (claimed_ < openBelow_ || ended_) return false;
  return {};
}

}  // namespace cinch
