#include "interpose/policy/callers.h"

#include <algorithm>

namespace cinch {
namespace {

// Looked at with each call: more than the buckets of a step as a rule.
constexpr size_t kMostFirsts = 64;

}  // namespace

// Broadcasts do not count among what others do: they bring parameters and buffers to all ranks.
CallOrigin Callers::note(const Signature& signature, std::optional<uint32_t> index, bool isLarge,
                         Caller caller) {
  CallOrigin origin{caller};
  if (index) {
    if (*index >= counts_.size()) counts_.resize(*index + 1);
    counts_[*index].add(caller);
    origin.ever = counts_[*index];
  }
  if (signature.kind != CallKind::broadcast && isOfStep(signature, isLarge)) {
    nSinceOthers_ = caller == Caller::autograd ? nSinceOthers_ + 1 : 0;
    if (caller == Caller::other) noteOther(index);
  }
  origin.isAutogradAlone = nSinceOthers_ >= kLongerThanStep || isOthersFirstStep();
  return origin;
}

void Callers::noteOther(std::optional<uint32_t> index) {
  const bool isFirst = index && counts_[*index].other == 1;
  areFirstsAll_ = areFirstsAll_ && isFirst && firsts_.size() < kMostFirsts;
  if (areFirstsAll_) firsts_.push_back(*index);
}

// Megatron-core's buckets of the first step are reduced by the main thread. One call may be an
// accident of a shape that does not come again; two are the same step.
bool Callers::isOthersFirstStep() const {
  return areFirstsAll_ && std::ranges::all_of(firsts_, [this](uint32_t index) {
           return counts_[index].autograd > 1;
         });
}

}  // namespace cinch
