#include "tests/unit/interpose/policy/job_model.h"

#include <algorithm>
#include <utility>

namespace cinch::test {
namespace {

// As in execute/submit.cc: losses and statistics of a few values tell no threads apart.
constexpr uint64_t kFewBytes = 32 << 10;

bool tellsThreadsApart(const Signature& signature) {
  const bool reduces = signature.kind == CallKind::allReduce ||
                       signature.kind == CallKind::reduceScatter ||
                       signature.kind == CallKind::reduce;
  return reduces && isCompressibleType(signature.dataType) &&
         signature.count * bytesOf(signature.dataType) >= kFewBytes;
}

}  // namespace

Params defaultSettings() {
  const char* const nothing[] = {nullptr};
  return readParams(nothing).params;
}

JobModel::JobModel(const JobFacts& facts)
    : facts_(facts),
      comm_{.nRanks = facts.nRanks, .agreed = true, .severalHosts = true},
      reducesFromAutograd_(static_cast<size_t>(facts.nRanks)),
      callers_(static_cast<size_t>(facts.nRanks)) {}

bool JobModel::call(const Signature& signature, std::span<const Caller> callers,
                    const SampleOf& sampleOf) {
  const std::vector<Caller> none(callers.size(), Caller::other);
  if (!facts_.seesThreads) callers = none;
  noteReduction(signature, callers);
  const auto seen = signatures_.observe(signature);
  const bool large = isLarge(facts_.params, comm_, signature);
  const auto whileLost = seen ? sequence_.expected(seen->index) : std::nullopt;
  place_ = seen ? sequence_.observe(signature, seen->index, large)
                : sequence_.observeUnknown(signature, large);
  const bool isLost = place_.kind == Place::Kind::unknown;
  const auto expected = isLost || !seen ? whileLost : std::optional(place_);
  std::vector<CallOrigin> origins;
  for (size_t rank = 0; rank < callers.size(); ++rank)
    origins.push_back(callers_[rank].note(
        signature, seen ? std::optional(seen->index) : std::nullopt, large, callers[rank]));
  for (CallOrigin& origin : origins) origin.reducesBeside = reducesBeside_;
  const bool isOfShard = std::exchange(scatteredBeside_, std::nullopt) == signature.count;
  if (expected) noteOrigins(*expected, origins, isOfShard);
  if (!seen) return false;
  const History history{seen->before, place_, nullptr, sequence_.timesPerPeriod(seen->index)};
  const Reason reason = decide(facts_.params, comm_, signature, history);
  if (reason == Reason::none) {
    askAgain(seen->before);
    return examine(callers, sampleOf);
  }
  if (signature.kind == CallKind::allGather && expected && exam_)
    measureGather(expected->position, callers, sampleOf);
  if (reason == Reason::unplaced && expected && exam_)
    measureWhileLost(*expected, callers, sampleOf);
  return false;
}

void JobModel::measureGather(uint32_t position, std::span<const Caller> callers,
                             const SampleOf& sampleOf) {
  if (exam_->period != sequence_.learned()) return;
  const TrainingStep::Call& gather = exam_->ranks.front().step().calls[position];
  if (!gather.isWatched) return;
  Site& site = exam_->sites[gather.slot];
  if (site.phase == Phase::measuring) measure(site, callers, sampleOf, true);
}

// As StepTracker and endMeasured() do: the ranks vote when the position is known again.
void JobModel::measureWhileLost(const Place& expected, std::span<const Caller> callers,
                                const SampleOf& sampleOf) {
  if (exam_->period != sequence_.learned()) return;
  Site& site = exam_->sites[expected.slot];
  if (site.phase == Phase::measuring) measure(site, callers, sampleOf, false);
  if (sequence_.period() > 0) vote(true);
}

void JobModel::noteElsewhere(const Signature& signature, std::span<const Caller> callers) {
  const bool isFromAutograd =
      facts_.seesThreads && std::ranges::count(callers, Caller::autograd) > 0;
  scatteredBeside_.reset();
  if (signature.kind == CallKind::reduceScatter && isFromAutograd)
    scatteredBeside_ = signature.count;
  if (tellsThreadsApart(signature) && facts_.seesThreads) reducesBeside_ = true;
  noteReduction(signature, callers);
}

void JobModel::noteReduction(const Signature& signature, std::span<const Caller> callers) {
  if (!tellsThreadsApart(signature) || !facts_.seesThreads) return;
  for (size_t rank = 0; rank < callers.size(); ++rank)
    if (callers[rank] == Caller::autograd) reducesFromAutograd_[rank] = true;
}

std::optional<Evidence> JobModel::outcome() const {
  if (place_.kind == Place::Kind::unknown || !exam_ || place_.slot >= exam_->sites.size())
    return {};
  const Site& site = exam_->sites[place_.slot];
  if (site.phase != Phase::decided) return {};
  return site.outcome;
}

void JobModel::noteOrigins(const Place& expected, std::span<const CallOrigin> origins,
                           bool areOfShard) {
  if (expected.kind == Place::Kind::unknown) return;
  openExam(expected, origins.size());
  if (!exam_ || exam_->period != sequence_.learned()) return;
  for (size_t rank = 0; rank < origins.size(); ++rank)
    exam_->ranks[rank].note(expected.position, origins[rank]);
  const TrainingStep::Call& call = exam_->ranks.front().step().calls[expected.position];
  if (call.isReduction) exam_->sites[call.slot].isOfShard = areOfShard;
}

// As StepTracker::examOf().
void JobModel::openExam(const Place& expected, size_t nRanks) {
  const bool isLost = place_.kind == Place::Kind::unknown;
  const uint32_t epoch = expected.epoch + (isLost ? 1 : 0);
  if (!exam_ || exam_->period != sequence_.learned()) {
    if (isLost) return;
    TrainingStep step = sequence_.step();
    step.nRanks = static_cast<uint64_t>(facts_.nRanks);
    const StepEvidence nothing(std::move(step));
    exam_ = std::make_unique<Exam>();
    exam_->period = sequence_.learned();
    exam_->epoch = epoch;
    exam_->ranks.assign(nRanks, nothing);
    exam_->sites.resize(nothing.step().nSites());
    for (uint32_t i = 0; i < exam_->sites.size(); ++i) {
      exam_->sites[i].samples.resize(nRanks);
      exam_->sites[i].isGather = i >= nothing.step().nSlots();
    }
  }
  if (exam_->epoch != epoch) reopen(epoch);
}

// As StepExam::reopen(): the last results are kept.
void JobModel::reopen(uint32_t epoch) {
  exam_->epoch = epoch;
  for (StepEvidence& rank : exam_->ranks) rank.forgetThreads();
  for (Site& site : exam_->sites) {
    std::vector<std::vector<SampledCall>> samples = std::move(site.samples);
    for (auto& ofRank : samples)
      while (ofRank.size() > kMeasuredCalls) ofRank.erase(ofRank.begin());
    const uint32_t nKept = std::min(site.nCalls, kMeasuredCalls);
    const bool isGather = site.isGather;
    site = {};
    site.isGather = isGather;
    site.samples = std::move(samples);
    site.nCalls = nKept;
    site.nNeeded = std::max(nKept + 1, kMeasuredCalls);
  }
}

// As StepExam does.
void JobModel::askAgain(uint64_t ordinal) {
  const auto isOpen = [](const Site& site) {
    return site.phase == Phase::decided && mayChange(site.outcome);
  };
  Site& asked = exam_->sites[place_.slot];
  if (!isOpen(asked)) return;
  if (!asked.again) asked.again = ordinal + (uint64_t{1} << asked.attempt);
  if (ordinal < *asked.again) return;
  for (Site& site : exam_->sites) {
    if (!isOpen(site)) continue;
    site.phase = Phase::measuring;
    site.nCalls = 0;
    site.nNeeded = kMeasuredCalls;
    site.hasVoted = false;
    site.again.reset();
    ++site.attempt;
    for (auto& samples : site.samples) samples.clear();
  }
}

// As examineSite() does.
bool JobModel::examine(std::span<const Caller> callers, const SampleOf& sampleOf) {
  Site& site = exam_->sites[place_.slot];
  if (site.phase == Phase::voting) {
    vote(true);
    site.phase = Phase::decided;
  }
  if (site.phase == Phase::measuring) {
    measure(site, callers, sampleOf, true);
    return false;
  }
  site.isClosed = site.isClosed || !std::ranges::equal(callers, site.callers) ||
                  (site.outcome == Evidence::autogradAlone && reducesBeside_);
  if (!isGradient(site.outcome) || site.isClosed) return false;
  // What may be anything gets ready only now: as submit.cc and prepare.cc do, in three calls.
  return place_.kind == Place::Kind::known || ++site.nCallsToGetReady > 3;
}

void JobModel::measure(Site& site, std::span<const Caller> callers, const SampleOf& sampleOf,
                       bool isPlaced) {
  if (site.callers.empty()) site.callers.assign(callers.begin(), callers.end());
  for (size_t rank = 0; rank < callers.size(); ++rank) site.samples[rank].push_back(sampleOf(rank));
  if (++site.nCalls < site.nNeeded) return;
  site.phase = site.isGather ? Phase::decided : Phase::voting;
  if (site.isGather) site.outcome = Evidence::ambiguous;
  if (isPlaced) vote(false);
}

// As StepExam::takeUnvoted(): on all sites once each has been measured, or where the program comes
// to a call whose outcome it needs, on those that have been.
void JobModel::vote(bool isUrgent) {
  const auto isMeasuring = [](const Site& site) { return site.phase == Phase::measuring; };
  if (!isUrgent && std::ranges::any_of(exam_->sites, isMeasuring)) return;
  judge();
  for (uint32_t i = 0; i < exam_->sites.size(); ++i) {
    Site& site = exam_->sites[i];
    if (site.phase != Phase::voting || site.hasVoted) continue;
    site.hasVoted = true;
    site.outcome = count(i);
  }
}

void JobModel::judge() {
  for (size_t rank = 0; rank < exam_->ranks.size(); ++rank)
    for (uint32_t i = 0; i < exam_->sites.size(); ++i) {
      const Site& site = exam_->sites[i];
      const std::vector<SampledCall>& calls = site.samples[rank];
      if (site.isGather)
        exam_->ranks[rank].judgeGather(i, judgeGather(calls));
      else
        exam_->ranks[rank].judge(i, judgeValues(calls, facts_.runs, facts_.nRanks, facts_.vetoes));
    }
}

// Rank 0 needs evidence, the others only must not see the contrary.
Evidence JobModel::count(uint32_t site) const {
  std::vector<Evidence> found;
  for (size_t rank = 0; rank < exam_->ranks.size(); ++rank)
    found.push_back(exam_->ranks[rank].of(
        site, {.reducesFromAutograd = reducesFromAutograd_[rank],
               .hasAutogradThreads = facts_.hasAutogradThreads && facts_.seesThreads,
               .isPyTorch = facts_.hasAutogradThreads && facts_.seesThreads,
               .isOfShard = exam_->sites[site].isOfShard}));
  const bool hasVeto = std::any_of(found.begin() + 1, found.end(), isVeto);
  return isGradient(found.front()) && hasVeto ? Evidence::anotherRank : found.front();
}

}  // namespace cinch::test
