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

// How long the ranks are made to wait for an examined call to end on rank 0's device: since rank 0
// itself began to wait, and since the call was enqueued.
constexpr std::chrono::seconds kPatience{2}, kLongPatience{30};

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

// Where the channel has ended, this rank will hear of it when it asks for its own word.
void say(CommState& comm, uint64_t topic, const Advice& advice) {
  (void)comm.agreement().publish(topic, encodeAdvice(advice));
}

// One examined call.
class Judgement {
 public:
  Judgement(std::shared_ptr<CommState> comm, Slot& slot, uint64_t call)
      : comm_(std::move(comm)),
        slot_(&slot),
        call_(call),
        topic_(judgementTopic(slot, call + CheckupSchedule::kDelay)),
        isOneBucket_(!std::exchange(slot.checkup->hasMoved, false) || slot.checkup->place),
        period_(comm_->gradients()) {}

  // False where the figures are not there yet, and may still be waited for.
  bool tryToEnd() {
    useDevice(*comm_->resources.device, comm_->resources.cudaDevice);
    const RelaxedCapture relaxed(*comm_->resources.device);
    const bool isThere = slot_->checkup->examiner.isFree();
    if (!isThere && isPatient()) return false;
    say(isThere ? judge() : Advice{});
    return true;
  }

  void say(const Advice& advice) const { cinch::say(*comm_, topic_, advice); }

 private:
  bool isPatient() {
    if (comm_->hasFailed()) return false;
    if (!isAwaited_ && slot_->checkup->isAwaited.load()) {
      isAwaited_ = true;
      deadline_ = std::min(deadline_, Clock::now() + kPatience);
    }
    return Clock::now() < deadline_;
  }

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
  Clock::time_point deadline_ = Clock::now() + kLongPatience;
  bool isAwaited_ = false;
};

}  // namespace

uint64_t judgementTopic(const Slot& slot, uint64_t heardBefore) {
  return topicOf({slot.identity, slot.nGivenBack, heardBefore});
}

void openInBackground(const std::shared_ptr<CommState>& comm, Slot& slot) {
  const uint64_t topic = judgementTopic(slot, 0);
  const auto open = [comm, &slot, topic, period = comm->gradients()] {
    useDevice(*comm->resources.device, comm->resources.cudaDevice);
    const RelaxedCapture relaxed(*comm->resources.device);
    cutIntoLayers(*comm, slot, period);
    say(*comm, topic, slot.checkup->adviser->opening());
    return true;
  };
  if (!runInBackground(open)) say(*comm, topic, Advice{});
}

void judgeInBackground(const std::shared_ptr<CommState>& comm, Slot& slot, uint64_t call,
                       bool isMeasured) {
  slot.checkup->isAwaited.store(false);
  Judgement judgement(comm, slot, call);
  if (!isMeasured || !runInBackground([judgement]() mutable { return judgement.tryToEnd(); }))
    judgement.say(Advice{});
}

}  // namespace cinch
