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
                                           const void* buffer_dev) {
  CallOrigin origin = callers_.note(signature, index, isLarge, currentCaller());
  noteParameters(signature, isLarge, buffer_dev);
  origin.reducesBeside = reducesFromAutogradBeside(resources_);
  if (!index) return {sequence_.observeUnknown(signature, isLarge)};
  Observed call{sequence_.observe(signature, *index, isLarge)};
  const bool isLost = call.place.kind == Place::Kind::unknown;
  const auto expected = isLost ? sequence_.expected(*index) : call.place;
  if (!expected) return call;
  const SiteExam exam = examOf(*expected, isLost);
  if (!exam) return call;
  call.contrary = exam_->note(expected->position, origin,
                              parameters_.contains(buffer_dev) ? buffer_dev : nullptr);
  // What is gathered is nobody's gradient, and has no site.
  if (signature.kind != CallKind::allGather) call.exam = exam;
  return call;
}

void StepTracker::noteParameters(const Signature& signature, bool isLarge, const void* buffer_dev) {
  // As many tensors as there may be signatures.
  if (parameters_.size() == SignatureTable::kMaxSignatures || buffer_dev == nullptr) return;
  const bool isOfFloats = isLarge && isCompressibleType(signature.dataType);
  if (signature.kind == CallKind::broadcast && isOfFloats && !sequence_.hasReduced())
    parameters_.insert(buffer_dev);
}

// A new period is examined, and one that goes on after a surprise anew: the program may do
// something else now. The epoch in which it will go on is the next one.
SiteExam StepTracker::examOf(const Place& place, bool isLost) {
  const uint32_t epoch = place.epoch + (isLost ? 1 : 0);
  if (!exam_ || exam_->period != sequence_.learned()) {
    if (isLost) return {};
    const auto before =
        std::exchange(exam_, std::make_shared<StepExam>(sequence_.learned(), epoch,
                                                        sequence_.step(), resources_, nRanks_));
    if (before && !before->hasArrived()) keepUntilArrived(before);
  }
  if (exam_->epoch() != epoch) exam_->reopen(epoch);
  return {exam_, place.slot};
}

void StepTracker::takeBack() {
  sequence_.takeBack();
  if (exam_) exam_->takeBack();
}

}  // namespace cinch
