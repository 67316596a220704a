#include "interpose/comm/step_exam.h"

#include <algorithm>
#include <utility>

#include "interpose/comm/topic.h"

namespace cinch {
namespace {

std::vector<uint64_t> countsOf(const StepEvidence& evidence) {
  std::vector<uint64_t> counts;
  for (uint32_t slot = 0; slot < evidence.step().nSlots(); ++slot)
    counts.push_back(evidence.reductionOf(slot).signature.count);
  return counts;
}

}  // namespace

StepExam::StepExam(uint32_t period, uint32_t epoch, TrainingStep step,
                   const CommResources& resources, int nRanks)
    : period(period),
      nRanks_(nRanks),
      epoch_(epoch),
      evidence_(std::move(step)),
      samples_(resources, countsOf(evidence_)),
      sites_(evidence_.step().nSlots()) {}

void StepExam::reopen(uint32_t epoch) {
  const std::lock_guard lock(mutex_);
  epoch_ = epoch;
  evidence_.forgetCallers();
  for (uint32_t site = 0; site < sites_.size(); ++site) {
    Site& again = sites_[site];
    again.oldest = sampleOf(site, 1);
    again.phase = Phase::measuring;
    again.nCalls = kCalls - 1;
    again.attempt = 0;
    again.again.reset();
    again.isOpen = again.mustVote = false;
    again.ballot = {};
  }
}

bool StepExam::note(uint32_t position, Caller caller, const CallerCounts& ever) {
  const std::lock_guard lock(mutex_);
  const TrainingStep::Call& call = evidence_.step().calls[position];
  bool contradicts = false;
  if (call.isReduction) {
    const Site& site = sites_[call.slot];
    contradicts = site.phase == Phase::decided && isGradient(site.outcome) &&
                  !evidence_.hasSeen(call.slot, caller);
  }
  evidence_.note(position, caller, ever);
  return contradicts;
}

void StepExam::decide(uint32_t site, Evidence outcome) {
  Site& decided = sites_[site];
  decided.phase = Phase::decided;
  decided.outcome = outcome;
  if (isGradient(outcome) || !decided.gate) return;
  decided.gate.reset();
  ++decided.nClosed;
}

void StepExam::askAgain(uint32_t site, uint64_t ordinal) {
  const std::lock_guard lock(mutex_);
  Site& asked = sites_[site];
  if (!asked.mayChange()) return;
  if (!asked.again) asked.again = ordinal + (uint64_t{1} << asked.attempt);
  if (ordinal < *asked.again) return;
  for (uint32_t other = 0; other < sites_.size(); ++other)
    if (sites_[other].mayChange()) measureAgain(other);
}

void StepExam::measureAgain(uint32_t site) {
  Site& again = sites_[site];
  again.phase = Phase::measuring;
  again.nCalls = 0;
  again.again.reset();
  ++again.attempt;
  samples_.forget(site);
}

void StepExam::beginCall(uint32_t site, const DeviceValues& input, void* stream) {
  const std::lock_guard lock(mutex_);
  Site& measured = sites_[site];
  if (measured.phase != Phase::measuring || std::exchange(measured.isOpen, true)) return;
  samples_.begin(site, sampleOf(site, measured.nCalls), input, stream);
}

void StepExam::endCall(uint32_t site, const DeviceValues& output, void* stream) {
  const std::lock_guard lock(mutex_);
  Site& measured = sites_[site];
  if (!std::exchange(measured.isOpen, false)) return;
  samples_.end(site, sampleOf(site, measured.nCalls), output, stream);
  if (++measured.nCalls < kCalls) return;
  measured.phase = Phase::voting;
  measured.mustVote = true;
}

void StepExam::takeBack() {
  const std::lock_guard lock(mutex_);
  for (Site& site : sites_) site.isOpen = false;
}

void StepExam::beginAudit(uint32_t site, const DeviceValues& input, void* stream) {
  const std::lock_guard lock(mutex_);
  Site& audited = sites_[site];
  if (audited.phase != Phase::decided || !samples_.isFree(site, audited.oldest)) return;
  samples_.begin(site, audited.oldest, input, stream);
  audited.isOpen = true;
}

void StepExam::endAudit(uint32_t site, const DeviceValues& output, void* stream) {
  const std::lock_guard lock(mutex_);
  Site& audited = sites_[site];
  if (!std::exchange(audited.isOpen, false)) return;
  samples_.end(site, audited.oldest, output, stream);
  audited.oldest = sampleOf(site, 1);
}

std::vector<uint32_t> StepExam::takeUnvoted(bool isUrgent) {
  const std::lock_guard lock(mutex_);
  const auto isMeasuring = [](const Site& site) { return site.phase == Phase::measuring; };
  std::vector<uint32_t> unvoted;
  if (!isUrgent && std::ranges::any_of(sites_, isMeasuring)) return unvoted;
  for (uint32_t site = 0; site < sites_.size(); ++site)
    if (std::exchange(sites_[site].mustVote, false)) unvoted.push_back(site);
  return unvoted;
}

uint64_t StepExam::gateTopic(uint32_t site) const {
  return topicOf({period, site, sites_[site].nClosed});
}

bool StepExam::hasArrived() const {
  const std::lock_guard lock(mutex_);
  return samples_.hasArrived();
}

Evidence StepExam::evidence(uint32_t site, const ProcessFacts& process) {
  const std::lock_guard lock(mutex_);
  for (uint32_t other = 0; other < sites_.size(); ++other) {
    const auto calls = samples_.read(other, sites_[other].oldest, sites_[other].nCalls);
    evidence_.judge(other, judgeValues(calls, samples_.runs(other), nRanks_));
  }
  return evidence_.of(site, process);
}

void StepExam::noteBallot(const Attempt& attempt, const Ballot& ballot) {
  const std::lock_guard lock(mutex_);
  if (this->attempt(attempt.site) == attempt) sites_[attempt.site].ballot = ballot;
}

StepExam::Ballot StepExam::ballot(uint32_t site) const {
  const std::lock_guard lock(mutex_);
  return sites_[site].ballot;
}

}  // namespace cinch
