#include "interpose/comm/step_tracker.h"

#include <chrono>
#include <utility>

#include "interpose/comm/background.h"
#include "interpose/comm/caller.h"
#include "interpose/policy/policy.h"

namespace cinch {
namespace {

using Clock = std::chrono::steady_clock;

// Its memory is being written to. What an aborted communicator has enqueued may never end.
void keepUntilArrived(const std::shared_ptr<StepExam>& exam) {
  constexpr std::chrono::seconds kLongEnough{60};
  const auto deadline = Clock::now() + kLongEnough;
  runInBackground([exam, deadline] { return exam->hasArrived() || Clock::now() > deadline; });
}

}  // namespace

StepTracker::Observed StepTracker::observe(const Signature& signature,
                                           std::optional<uint32_t> index, bool isLarge,
                                           const void* buffer_dev, int root) {
  const ListGathers::Call made{signature, index, isLarge};
  const CallOrigin origin = originOf(made);
  // Before the first reduction the ranks share parameters, each its own perhaps.
  const bool isHeld = listGathers_.hold(made, root, sequence().hasReduced());
  for (const auto& broadcast : listGathers_.released())
    sequence_.observe(broadcast.signature, broadcast.index, broadcast.isLarge);
  if (listGathers_.hasGathered()) noteGather(made);
  if (isHeld) return {};
  const auto whileLost = index ? sequence().expected(*index) : std::nullopt;
  Observed call{sequence_.observe(signature, index, isLarge)};
  call.periodCalls = periodCalls();
  const bool isLost = call.place.kind == Place::Kind::unknown;
  const auto expected = isLost ? whileLost : call.place;
  if (!expected) return call;
  if (!openExam(*expected, isLost)) return call;
  const BufferOrigin buffer{buffer_dev, shardOfAnother(resources_, buffer_dev, signature.count)};
  const auto noted = exam_->note(expected->position, origin, buffer);
  call.contrary = noted.contrary;
  if (noted.site) call.exam = {exam_, *noted.site, noted.isGather, buffer.scattered};
  return call;
}

// A sum, since a period may be learned from any of its calls on, and be learned again.
uint64_t StepTracker::periodCalls() {
  if (std::exchange(learned_, sequence().learned()) == sequence().learned()) return periodCalls_;
  periodCalls_ = 0;
  for (const TrainingStep::Call& call : sequence().step().calls)
    periodCalls_ += identityOf(call.signature, 0, 0);
  return periodCalls_;
}

CallOrigin StepTracker::originOf(const ListGathers::Call& call) {
  const auto& [signature, index, isLarge] = call;
  CallOrigin origin = callers_.note(signature, index, isLarge, currentCaller());
  origin.reducesBeside = reducesBeside(resources_);
  return origin;
}

void StepTracker::noteGather(const ListGathers::Call& last) {
  const Signature gather{CallKind::allGather, OpClass::none, last.signature.dataType,
                         last.signature.count};
  callers_.note(gather, std::nullopt, last.isLarge, currentCaller());
}

void StepTracker::commit() {
  listGathers_.commit();
  sequence_.commit();
}

// A new period is examined, and one that goes on after a surprise anew: the program may do
// something else now. The epoch in which it will go on is the next one.
bool StepTracker::openExam(const Place& place, bool isLost) {
  const uint32_t epoch = place.epoch + (isLost ? 1 : 0);
  if (!exam_ || exam_->period != sequence().learned()) {
    if (isLost) return false;
    closeExam();
    TrainingStep step = sequence().step();
    step.nRanks = static_cast<uint64_t>(nRanks_);
    exam_ = std::make_shared<StepExam>(sequence().learned(), epoch, std::move(step), resources_,
                                       nRanks_);
  }
  if (exam_->epoch() != epoch) exam_->reopen(epoch);
  return true;
}

void StepTracker::closeExam() {
  const auto before = std::exchange(exam_, nullptr);
  if (before && !before->hasArrived()) keepUntilArrived(before);
}

void StepTracker::takeBack() {
  listGathers_.takeBack();
  sequence_.takeBack();
  if (exam_) exam_->takeBack();
  learned_ = 0;
  // Another period may get its number.
  if (exam_ && exam_->period > sequence().learned()) closeExam();
}

}  // namespace cinch
