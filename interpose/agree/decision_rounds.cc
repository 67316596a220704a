#include "interpose/agree/decision_rounds.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace cinch {
namespace {

// Refusals in a row after which a proposal is no further ahead: by then it is a million calls.
constexpr uint64_t kMostMargin = uint64_t{1} << 16;

}  // namespace

bool DecisionRounds::isToBeDecided(uint64_t topic) const {
  const auto isIt = [&](const Decision& decision) { return decision.topic == topic; };
  return std::ranges::any_of(pending_, isIt) ||
         (round_ && std::ranges::any_of(round_->decisions, isIt));
}

Result<void> DecisionRounds::add(Decision decision, uint64_t at) {
  if (isOver_) return {};
  if (at != kNoOrdinal) want(at);
  // The outcome of the round that is under way answers both.
  if (isToBeDecided(decision.topic)) return {};
  if (pending_.size() == kMaxPendingDecisions)
    return errorf(Status::remoteError, "more than %zu open decisions", kMaxPendingDecisions);
  pending_.push_back(std::move(decision));
  return {};
}

// A rank that wants more than one is wrong.
void DecisionRounds::want(uint64_t ordinal) {
  wanted_.insert(ordinal);
  if (wanted_.size() > nMembers_) wanted_.erase(std::prev(wanted_.end()));
}

// As many as a message holds, one at least.
std::vector<Decision> DecisionRounds::takePending() {
  size_t n = 0, nBytes = 0;
  for (; n < pending_.size(); ++n) {
    nBytes += pending_[n].bytes.size() + sizeof(Decision);
    if (n > 0 && nBytes > kMaxRoundBytes) break;
  }
  const auto end = pending_.begin() + static_cast<ptrdiff_t>(n);
  std::vector<Decision> taken(std::make_move_iterator(pending_.begin()),
                              std::make_move_iterator(end));
  pending_.erase(pending_.begin(), end);
  return taken;
}

// What is known of the ranks may be old: then they refuse, and say where they are.
uint64_t DecisionRounds::nextOrdinal() const {
  const uint64_t margin = std::max<uint64_t>(margin_, 1);
  return wanted_.empty() ? highest_ + lead_ * margin + margin - 1 : *wanted_.begin();
}

void DecisionRounds::begin(std::vector<Message>& out) {
  if (isOver_ || round_ || pending_.empty() || due_ != kNoDeadline) return;
  round_ = Round{
      .ordinal = nextOrdinal(), .wanted = std::exchange(wanted_, {}), .decisions = takePending()};
  round_->answered.assign(nMembers_, false);
  out.push_back(Prepare{++nRounds_, round_->ordinal, rest_ >= kLongestRest});
}

Result<void> DecisionRounds::prepared(size_t member, const Prepared& answer,
                                      std::vector<Message>& out) {
  // It was sent before this rank was told that another one has left.
  if (!round_ || answer.round != nRounds_) return {};
  if (round_->answered[member])
    return errorf(Status::remoteError, "a second answer to one proposal");
  round_->answered[member] = true;
  round_->isRefused = round_->isRefused || answer.answer == Prepared::Answer::claimed;
  round_->isBusy = round_->isBusy || answer.answer == Prepared::Answer::busy;
  lead_ = round_->nAnswered == 0 ? answer.lead : std::max(lead_, answer.lead);
  highest_ = std::max(highest_, answer.claimed);
  if (++round_->nAnswered == nMembers_) finish(out);
  return {};
}

void DecisionRounds::finish(std::vector<Message>& out) {
  Round round = std::move(*round_);
  round_.reset();
  if (round.isRefused || round.isBusy) return finishRefused(std::move(round), out);
  lastCommit_ = Commit{nRounds_, round.ordinal, std::move(round.decisions)};
  out.push_back(*lastCommit_);
  margin_ = 0;
  rest_ = kShortestRest;
  begin(out);
}

void DecisionRounds::finishRefused(Round round, std::vector<Message>& out) {
  pending_.insert(pending_.begin(), std::make_move_iterator(round.decisions.begin()),
                  std::make_move_iterator(round.decisions.end()));
  lastCommit_.reset();
  if (round.isRefused) highest_ = std::max(highest_, round.ordinal + 1);
  for (const uint64_t wanted : round.wanted)
    if (wanted >= highest_) want(wanted);
  out.push_back(Withdraw{nRounds_, highest_});
  if (round.isRefused) margin_ = margin_ == 0 ? 1 : std::min(2 * margin_, kMostMargin);
  if (!round.isBusy) return begin(out);
  due_ = deadlineIn(rest_);
  rest_ = std::min(2 * rest_, kLongestRest);
}

void DecisionRounds::expire(std::vector<Message>& out) {
  if (Clock::now() < due_) return;
  due_ = kNoDeadline;
  begin(out);
}

Message DecisionRounds::outcomeOf(uint64_t round) const {
  if (lastCommit_ && lastCommit_->round == round) return *lastCommit_;
  return Withdraw{round, kNoOrdinal};
}

void DecisionRounds::giveUp(std::vector<Message>& out) {
  isOver_ = true;
  out.push_back(Withdraw{nRounds_, kNoOrdinal});
  pending_.clear();
  round_.reset();
  due_ = kNoDeadline;
}

}  // namespace cinch
