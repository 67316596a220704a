#include "interpose/execute/judgement.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/log.h"
#include "interpose/comm/background.h"
#include "interpose/comm/topic.h"
#include "interpose/policy/precision/segments.h"

namespace cinch {
namespace {

using Clock = std::chrono::steady_clock;

// How long an examined call may take to end on rank 0's device, of which it is one of many that the
// program has enqueued: what is later than that is of no use.
constexpr std::chrono::seconds kPatience{30};

void report(const Adviser& adviser, SlotStats& stats) {
  const Finding& finding = adviser.finding();
  GuardFigures& guard = stats.guard;
  guard.checks.fetch_add(1, std::memory_order_relaxed);
  guard.breaches.fetch_add(finding.isBreach, std::memory_order_relaxed);
  guard.nmse.store(finding.nmse, std::memory_order_relaxed);
  guard.powerRatio.store(finding.powerRatio, std::memory_order_relaxed);
  guard.cosine.store(finding.cosine, std::memory_order_relaxed);
  guard.budget.store(finding.budget, std::memory_order_relaxed);
  stats.codecInForce.store(adviser.standard().name, std::memory_order_relaxed);
}

void cutIntoLayers(CommState& comm, const Slot& slot, const std::vector<GradientCall>& period) {
  const Checkup& checkup = *slot.checkup;
  const uint64_t count = slot.plan.bucketElems();
  const BucketLayout layers = comm.layers()->of(period, count, checkup.place);
  if (!layers.empty()) slot.checkup->adviser->cut(segmentsOf(count, layers, longestSegment(count)));
}

// One examined call.
class Judgement {
 public:
  Judgement(std::shared_ptr<CommState> comm, Slot& slot, uint64_t call)
      : comm_(std::move(comm)),
        slot_(&slot),
        call_(call),
        topic_(precisionTopic(slot, call)),
        isOneBucket_(!std::exchange(slot.checkup->hasMoved, false) || slot.checkup->place),
        period_(comm_->gradients()) {}

  // False where the figures are not there yet, and may still be waited for.
  bool tryToEnd() {
    useDevice(*comm_->resources.device, comm_->resources.cudaDevice);
    const RelaxedCapture relaxed(*comm_->resources.device);
    const bool isThere = slot_->checkup->examiner.isFree();
    if (!isThere && !comm_->hasFailed() && Clock::now() < deadline_) return false;
    propose(isThere ? judge() : Advice{});
    return true;
  }

  // Where the channel has ended, what is in force stays so.
  void propose(const Advice& advice) const {
    (void)comm_->agreement().propose(topic_, encodeAdvice(advice));
  }

 private:
  Advice judge() {
    if (slot_->checkup->adviser->isAdaptive() && isOneBucket_)
      cutIntoLayers(*comm_, *slot_, period_);
    Adviser& adviser = *slot_->checkup->adviser;
    const Examiner& examiner = slot_->checkup->examiner;
    const codec::CodecInfo& before = adviser.standard();
    const Advice advice = adviser.advise({.own = examiner.own(),
                                          .result = examiner.result(),
                                          .codedError = examiner.codedError(),
                                          .codedPower = examiner.codedPower(),
                                          .isOneBucket = isOneBucket_},
                                         call_);
    report(adviser, *slot_->stats);
    if (adviser.standard().format.id != before.format.id) warnOfRaise(before);
    return advice;
  }

  void warnOfRaise(const codec::CodecInfo& before) const {
    const Adviser& adviser = *slot_->checkup->adviser;
    CINCH_WARN("GUARD",
               "%s: %s has an error of %.3g, more than the %.3g that %s should have: raised to %s",
               comm_->name.c_str(), slot_->name.c_str(), adviser.finding().nmse,
               adviser.finding().budget, before.name, adviser.standard().name);
  }

  std::shared_ptr<CommState> comm_;
  Slot* slot_;
  uint64_t call_, topic_;
  bool isOneBucket_;
  std::vector<GradientCall> period_;
  Clock::time_point deadline_ = Clock::now() + kPatience;
};

}  // namespace

uint64_t precisionTopic(const Slot& slot, uint64_t call) {
  return topicOf(Subject::precision, {slot.identity, slot.nGivenBack, call});
}

bool hasOpening(const Slot& slot) {
  return slot.checkup && slot.checkup->schedule.hasOpening;
}

void openInBackground(const std::shared_ptr<CommState>& comm, Slot& slot,
                      const std::function<void(std::span<const uint8_t>)>& send) {
  const auto open = [comm, &slot, send, period = comm->gradients()] {
    useDevice(*comm->resources.device, comm->resources.cudaDevice);
    const RelaxedCapture relaxed(*comm->resources.device);
    cutIntoLayers(*comm, slot, period);
    send(encodeAdvice(slot.checkup->adviser->opening()));
    return true;
  };
  if (!runInBackground(open)) send({});
}

void judgeInBackground(const std::shared_ptr<CommState>& comm, Slot& slot, uint64_t call,
                       bool isMeasured) {
  Judgement judgement(comm, slot, call);
  if (!isMeasured || !runInBackground([judgement]() mutable { return judgement.tryToEnd(); }))
    judgement.propose(Advice{});
}

}  // namespace cinch
