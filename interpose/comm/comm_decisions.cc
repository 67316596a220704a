#include "interpose/comm/comm_decisions.h"

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "common/param.h"
#include "interpose/agree/call_trail.h"
#include "interpose/agree/decisions.h"

namespace cinch {
namespace {

// Calls that a rank makes without the others, who may have ended well: more than the last of a job
// that is some steps behind.
constexpr uint64_t kOfALastStep = 256;

std::string textOf(const CallTrail& trail, const Difference& difference) {
  const auto number = [](uint64_t value) { return std::to_string(value); };
  std::string text = "rank " + number(difference.rank) + " and rank " + number(difference.other) +
                     " no longer make the same calls in the same order and way: of those that "
                     "could be compressed ";
  if (difference.differs - difference.alike > 1)
    return text + "the first " + number(difference.alike) + " are the same, and the first " +
           number(difference.differs) + " are not";
  text += "the first " + number(difference.alike) + " are the same, and the next one is not";
  const auto own = trail.callAt(difference.alike);
  return own ? text + "; on this rank that is " + describe(unpacked(*own)) : text;
}

}  // namespace

Result<void> CommDecisions::begin(std::shared_ptr<Agreement> channel, std::string communicator,
                                  const PlannedComm& now, bool isRecorder) {
  channel_ = std::move(channel);
  CallTrail& trail = channel_->trail();
  trail.onDifference([&trail, name = name_](const Difference& difference) {
    CINCH_WARN("AGREE", "%s: %s", name.c_str(), textOf(trail, difference).c_str());
  });
  waits_ = processParams().params.slots == SlotChoice::signature;
  return plan_.begin(std::move(communicator), now, isRecorder);
}

Result<uint64_t> CommDecisions::claim(const Signature& signature) {
  auto claimed = channel_->decisions().claim();
  CINCH_TRY(claimed);
  const uint64_t call = claimed.value().call;
  channel_->trail().claim(call, packed(signature), claimed.value().decisions);
  isConfirmed_ = false;
  for (Decision& decision : claimed.value().decisions)
    keep(call, decision.topic, std::move(decision.bytes));
  if (isReplayed())
    for (PlannedDecision& decision : plan_.decisionsAt(call))
      inForce_.insert_or_assign(decision.topic, Effect{call, std::move(decision.bytes)});
  if (claimed.value().isOver) noteEnd();
  return call;
}

void CommDecisions::keep(uint64_t call, uint64_t topic, Bytes bytes) {
  if (awaited_.erase(topic) != 0) return;
  if (isReplayed()) {
    live_.insert_or_assign(topic, std::move(bytes));
    return;
  }
  plan_.note({call, topic, bytes});
  inForce_.insert_or_assign(topic, Effect{call, std::move(bytes)});
}

void CommDecisions::noteEnd() {
  if (++nSinceEnd_ != kOfALastStep) return;
  CINCH_WARN("AGREE",
             "%s: control channel: a rank has left, or cannot be reached; the last decisions stay "
             "in force: what is compressed stays so, and nothing else will be",
             name_.c_str());
}

void CommDecisions::confirm() {
  if (!std::exchange(isConfirmed_, true)) channel_->trail().confirm();
}

bool CommDecisions::takeBack() {
  Decisions& decisions = channel_->decisions();
  decisions.takeBack();
  channel_->trail().takeBack();
  return decisions.claimed() >= begun_;
}

Result<std::optional<CommDecisions::Bytes>> CommDecisions::take(uint64_t topic, uint64_t call) {
  const bool isThere = isReplayed() || !waits_ ? isInForce(topic, call) : inForce_.contains(topic);
  if (isThere) {
    Effect taken = std::move(inForce_.extract(topic).mapped());
    if (isReplayed() || !waits_) begun_ = std::max(begun_, taken.call);
    return std::optional(std::move(taken.bytes));
  }
  if (isReplayed() || !waits_) return std::optional<Bytes>();
  auto awaited = awaitNow(topic);
  if (awaited.ok() && awaited.value()) plan_.note({call, topic, *awaited.value()});
  return awaited;
}

Result<const CommDecisions::Bytes*> CommDecisions::read(uint64_t topic, uint64_t call) {
  const bool waits = waits_ && !isReplayed();
  const auto isThere = [&] { return waits ? inForce_.contains(topic) : isInForce(topic, call); };
  if (!isThere() && waits) {
    auto awaited = awaitNow(topic);
    CINCH_TRY(awaited);
    if (!awaited.value()) return nullptr;
    plan_.note({call, topic, *awaited.value()});
    inForce_.insert_or_assign(topic, Effect{call, std::move(*awaited.value())});
  }
  return isThere() ? &inForce_.at(topic).bytes : nullptr;
}

// Whether or not it is in force: all ranks ask at the same call.
Result<std::optional<CommDecisions::Bytes>> CommDecisions::awaitNow(uint64_t topic) {
  const std::chrono::seconds time(processParams().params.voteTimeout);
  auto decided = channel_->decisions().await(topic, deadlineIn(time));
  CINCH_TRY(decided);
  if (!decided.value()) return std::optional<Bytes>();
  awaited_.insert(topic);
  return std::optional(std::move(decided.value()->bytes));
}

Result<std::optional<VoteOutcome>> CommDecisions::takeVote(uint64_t topic, uint64_t call) {
  const auto bytes = take(topic, call);
  CINCH_TRY(bytes);
  if (!bytes.value()) return std::optional<VoteOutcome>();
  std::optional<VoteOutcome> outcome = outcomeOf(*bytes.value());
  if (!outcome) return errorf(Status::remoteError, "an outcome of a vote that cannot be read");
  if (!isReplayed() || !outcome->allYes) return outcome;
  Result<std::optional<Bytes>> now = std::optional<Bytes>();
  if (auto found = live_.extract(topic); !found.empty())
    now = std::optional(std::move(found.mapped()));
  else
    now = awaitNow(topic);
  CINCH_TRY(now);
  const auto voted = now.value() ? outcomeOf(*now.value()) : std::nullopt;
  outcome->allYes = voted && voted->allYes;
  return outcome;
}

bool CommDecisions::arrive(uint64_t topic, uint64_t call) {
  if (callsWait() || isReplayed() || channel_->castVote(topic, true).ok()) return true;
  meetings_.missed(call);
  return false;
}

Result<bool> CommDecisions::haveMet(uint64_t topic, uint64_t call, uint32_t connections,
                                    Deadline patience) {
  bool haveMet = callsWait() || isReplayed();
  if (!haveMet) {
    const auto decided = channel_->decisions().await(
        topic, patience, [&] { static_cast<void>(channel_->retractVote(topic)); });
    // Nothing has been decided without this rank's promise.
    const bool isKnown = decided.ok() || !channel_->decisions().isInDoubt();
    if (!isKnown) return decided.error();
    const auto outcome =
        decided.ok() && decided.value() ? outcomeOf(decided.value()->bytes) : std::nullopt;
    haveMet = outcome && outcome->allYes;
    if (outcome) awaited_.insert(topic);
  }
  if (haveMet)
    meetings_.met(connections);
  else
    meetings_.missed(call);
  return haveMet;
}

bool CommDecisions::follows(uint64_t topic, uint64_t call) {
  if (!isInForce(topic, call)) return false;
  begun_ = std::max(begun_, inForce_.at(topic).call);
  return true;
}

bool CommDecisions::isInForce(uint64_t topic, uint64_t call) const {
  const auto found = inForce_.find(topic);
  return found != inForce_.end() && found->second.call <= call;
}

Result<void> CommDecisions::wantBeforeNext(uint64_t topic) {
  if (isReplayed() || inForce_.contains(topic)) return {};
  CINCH_TRY(channel_->decisions().isDecidedBeforeNext(topic));
  return {};
}

void CommDecisions::setActive() {
  channel_->trail().setActive();
}

std::optional<Error> CommDecisions::difference() const {
  const CallTrail& trail = channel_->trail();
  const auto found = trail.difference();
  if (!found) return {};
  return errorf(Status::remoteError, "%s", textOf(trail, *found).c_str());
}

void CommDecisions::setPeriod(uint64_t calls) {
  if (calls == period_) return;
  period_ = calls;
  channel_->decisions().setPeriod(calls);
}

}  // namespace cinch
