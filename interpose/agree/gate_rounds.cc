#include "interpose/agree/gate_rounds.h"

#include <algorithm>

namespace cinch {

void GateRounds::propose(const CloseProposal& proposal, bool canClose, std::vector<Message>& out) {
  const auto found = rounds_.find(proposal.topic);
  // The outcome of the round that is under way answers this one, too. Where that round is for a
  // later call, either it succeeds, so that the proposed call is open for all, or a rank has begun
  // a call later than the proposed one. Where it is for an earlier call and fails, the next round
  // follows at once.
  if (found != rounds_.end()) return;
  if (!canClose || rounds_.size() == kMaxOpenGates) {
    out.push_back(GateNotClosed{proposal.topic, proposal.ordinal, kNeverCloses});
    return;
  }
  Round& round = rounds_[proposal.topic];
  round.ordinal = proposal.ordinal;
  begin(proposal.topic, round, out);
}

void GateRounds::begin(uint64_t topic, Round& round, std::vector<Message>& out) const {
  round.answered.assign(nMembers_, false);
  round.nAnswered = 0;
  round.openBelow = 0;
  out.push_back(ClosePrepare{topic, round.ordinal});
}

Result<void> GateRounds::prepared(size_t member, const ClosePrepared& answer,
                                  std::vector<Message>& out) {
  const auto found = rounds_.find(answer.topic);
  // It was sent before this rank was told that another one has left.
  if (found == rounds_.end() || found->second.ordinal != answer.ordinal) return {};
  Round& round = found->second;
  if (round.answered[member])
    return errorf(Status::remoteError, "a second answer on closing one gate");
  round.answered[member] = true;
  round.nAnswered++;
  round.openBelow = std::max(round.openBelow, answer.openBelow);
  if (round.nAnswered == nMembers_) finish(answer.topic, out);
  return {};
}

void GateRounds::finish(uint64_t topic, std::vector<Message>& out) {
  const auto found = rounds_.find(topic);
  Round& round = found->second;
  if (round.openBelow <= round.ordinal) {
    out.push_back(GateClosed{topic, round.ordinal});
    rounds_.erase(found);
    return;
  }
  // Numbers that run out end the retries against a rank that always refuses, which no honest one
  // does.
  const bool canRetry =
      round.margin < kNeverCloses / 2 && round.openBelow < kNeverCloses - round.margin;
  const uint64_t openBelow = canRetry ? round.openBelow : kNeverCloses;
  out.push_back(GateNotClosed{topic, round.ordinal, openBelow});
  if (!canRetry) {
    rounds_.erase(found);
    return;
  }
  round.ordinal = openBelow + round.margin;
  round.margin *= 2;
  begin(topic, round, out);
}

void GateRounds::giveUp(std::vector<Message>& out) {
  for (const auto& [topic, round] : rounds_)
    out.push_back(GateNotClosed{topic, round.ordinal, kNeverCloses});
  rounds_.clear();
}

}  // namespace cinch
