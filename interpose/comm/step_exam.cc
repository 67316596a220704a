#include "interpose/comm/step_exam.h"

#include <algorithm>
#include <utility>

#include "interpose/comm/topic.h"

namespace cinch {
namespace {

std::vector<uint64_t> countsOf(const StepEvidence& evidence) {
  std::vector<uint64_t> counts;
  for (uint32_t site = 0; site < evidence.step().nSites(); ++site)
    counts.push_back(evidence.callOf(site).signature.count);
  return counts;
}

SiteFinding findingOf(bool isGradient) {
  return isGradient ? SiteFinding::gradient : SiteFinding::other;
}

// Whether the last call of each position of the site reduced a shard that is known to be of
// gradients.
bool areOfGradients(const TrainingStep& step, const std::vector<SharedFinding>& scattered,
                    uint32_t site) {
  for (size_t i = 0; i < step.calls.size(); ++i) {
    const bool isOther = !step.calls[i].isReduction || step.calls[i].slot != site;
    if (!isOther && (scattered[i] == nullptr || scattered[i]->load() != SiteFinding::gradient))
      return false;
  }
  return true;
}

// A buffer that is not known is not known to be another one.
bool isAmong(const std::vector<const void*>& measured, const void* buffer_dev) {
  return buffer_dev == nullptr || std::ranges::count(measured, buffer_dev) != 0;
}

}  // namespace

StepExam::StepExam(uint32_t period, uint32_t epoch, TrainingStep step,
                   const CommResources& resources, int nRanks)
    : period(period),
      nRanks_(nRanks),
      epoch_(epoch),
      evidence_(std::move(step)),
      samples_(resources, countsOf(evidence_)),
      sites_(evidence_.step().nSites()),
      scattered_(evidence_.step().calls.size()) {
  for (uint32_t site = 0; site < sites_.size(); ++site)
    sites_[site].isGather = site >= evidence_.step().nSlots();
}

void StepExam::reopen(uint32_t epoch) {
  const std::lock_guard lock(mutex_);
  epoch_ = epoch;
  evidence_.forgetThreads();
  for (Site& site : sites_) {
    if (site.nCalls > kMeasuredCalls) {
      site.oldest = (site.oldest + 1) % SiteSamples::kCalls;
      site.nCalls = kMeasuredCalls;
    }
    site.nNeeded = std::max(site.nCalls + 1, kMeasuredCalls);
    site.phase = Phase::measuring;
    site.attempt = 0;
    site.mayChange = false;
    site.again.reset();
    site.measured.clear();
    site.isOpen = site.mustVote = false;
    site.ballot = {};
  }
}

StepExam::Noted StepExam::note(uint32_t position, const CallOrigin& origin,
                               const BufferOrigin& buffer) {
  const std::lock_guard lock(mutex_);
  const TrainingStep::Call& call = evidence_.step().calls[position];
  Noted noted{.isGather = call.isWatched};
  if (call.isReduction || call.isWatched) noted.site = call.slot;
  if (call.isReduction) {
    const Site& site = sites_[call.slot];
    const bool isTaken = this->isTaken(call.slot);
    std::optional<Evidence>& contrary = noted.contrary;
    if (isTaken && !evidence_.hasSeen(call.slot, origin.caller)) contrary = Evidence::anotherThread;
    if (isTaken && site.outcome == Evidence::wholeModel && !isAmong(site.measured, buffer.data_dev))
      contrary = Evidence::anotherBuffer;
    if (isTaken && origin.reducesBeside && site.outcome == Evidence::autogradAlone)
      contrary = Evidence::ambiguous;
  }
  evidence_.note(position, origin);
  scattered_[position] = buffer.scattered;
  return noted;
}

void StepExam::decide(uint32_t site, Evidence outcome) {
  Site& decided = sites_[site];
  decided.phase = Phase::decided;
  decided.outcome = outcome;
  decided.mayChange = mayChange(outcome);
  decided.finding->store(findingOf(isGradient(outcome)));
  if (isGradient(outcome))
    decided.wasTaken = true;
  else if (std::exchange(decided.wasTaken, false))
    ++decided.nClosed;
}

void StepExam::close(uint32_t site, Evidence found) {
  decide(site, found);
  sites_[site].mayChange = false;
}

void StepExam::askAgain(uint32_t site, uint64_t ordinal) {
  const std::lock_guard lock(mutex_);
  Site& asked = sites_[site];
  if (!asked.mayChange) return;
  if (!asked.again) asked.again = ordinal + (uint64_t{1} << asked.attempt);
  if (ordinal < *asked.again) return;
  for (uint32_t other = 0; other < sites_.size(); ++other) {
    if (!sites_[other].mayChange) continue;
    sites_[other].measureAgain();
    samples_.forget(other);
  }
}

void StepExam::Site::measureAgain() {
  phase = Phase::measuring;
  nCalls = 0;
  nNeeded = kMeasuredCalls;
  mayChange = false;
  measured.clear();
  again.reset();
  ++attempt;
}

void StepExam::beginCall(uint32_t site, const DeviceValues& input, const void* buffer_dev,
                         void* stream) {
  const std::lock_guard lock(mutex_);
  Site& measured = sites_[site];
  if (measured.phase != Phase::measuring || std::exchange(measured.isOpen, true)) return;
  measured.measured.push_back(buffer_dev);
  samples_.begin(site, measured.nextSample(), input, stream);
}

void StepExam::Site::keepSample() {
  if (nCalls < SiteSamples::kCalls)
    ++nCalls;
  else
    oldest = (oldest + 1) % SiteSamples::kCalls;
}

void StepExam::endCall(uint32_t site, const DeviceValues& output, void* stream) {
  const std::lock_guard lock(mutex_);
  Site& measured = sites_[site];
  if (!std::exchange(measured.isOpen, false)) return;
  samples_.end(site, measured.nextSample(), output, stream);
  measured.keepSample();
  if (measured.nCalls < measured.nNeeded) return;
  // There is nothing to vote on of a gather, which is measured again with the others.
  measured.phase = measured.isGather ? Phase::decided : Phase::voting;
  measured.mustVote = !measured.isGather;
  measured.mayChange = measured.isGather;
}

void StepExam::takeBack() {
  const std::lock_guard lock(mutex_);
  for (Site& site : sites_) site.isOpen = false;
}

void StepExam::beginAudit(uint32_t site, const DeviceValues& input, void* stream) {
  const std::lock_guard lock(mutex_);
  Site& audited = sites_[site];
  if (audited.phase != Phase::decided || !samples_.isFree(site, audited.nextSample())) return;
  samples_.begin(site, audited.nextSample(), input, stream);
  audited.isOpen = true;
}

void StepExam::endAudit(uint32_t site, const DeviceValues& output, void* stream) {
  const std::lock_guard lock(mutex_);
  Site& audited = sites_[site];
  if (!std::exchange(audited.isOpen, false)) return;
  samples_.end(site, audited.nextSample(), output, stream);
  audited.keepSample();
}

std::vector<uint32_t> StepExam::takeUnvoted(bool isUrgent) {
  const std::lock_guard lock(mutex_);
  const auto isMeasuring = [](const Site& site) { return site.phase == Phase::measuring; };
  std::vector<uint32_t> unvoted;
  if (!isUrgent && std::ranges::any_of(sites_, isMeasuring)) return unvoted;
  for (uint32_t site = 0; site < sites_.size(); ++site) {
    if (!std::exchange(sites_[site].mustVote, false)) continue;
    sites_[site].finding->store(SiteFinding::underWay);
    unvoted.push_back(site);
  }
  return unvoted;
}

uint64_t StepExam::closingTopic(uint32_t site) const {
  return topicOf(Subject::closing, {period, site, sites_[site].nClosed});
}

bool StepExam::hasArrived() const {
  const std::lock_guard lock(mutex_);
  const bool isUnderWay = std::ranges::any_of(scattered_, [](const SharedFinding& shard) {
    return shard && shard->load() == SiteFinding::underWay;
  });
  return samples_.hasArrived() && !isUnderWay;
}

Evidence StepExam::evidence(uint32_t site, const ProcessFacts& process) {
  const std::lock_guard lock(mutex_);
  for (uint32_t other = 0; other < sites_.size(); ++other) {
    const auto calls = samples_.read(other, sites_[other].oldest, sites_[other].nCalls);
    if (sites_[other].isGather)
      evidence_.judgeGather(other, judgeGather(calls));
    else
      evidence_.judge(other, judgeValues(calls, samples_.runs(other), nRanks_));
  }
  ProcessFacts facts = process;
  facts.isOfShard = areOfGradients(evidence_.step(), scattered_, site);
  return evidence_.of(site, facts);
}

void StepExam::noteBallot(const Attempt& attempt, const Ballot& ballot) {
  const std::lock_guard lock(mutex_);
  Site& site = sites_[attempt.site];
  if (this->attempt(attempt.site) != attempt) {
    site.finding->store(SiteFinding::unknown);
    return;
  }
  site.ballot = ballot;
  site.finding->store(findingOf(ballot.isYes && isGradient(ballot.found)));
}

StepExam::Ballot StepExam::ballot(uint32_t site) const {
  const std::lock_guard lock(mutex_);
  return sites_[site].ballot;
}

}  // namespace cinch
