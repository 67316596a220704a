#include "interpose/policy/callers.h"

namespace cinch {

// Broadcasts do not count among what others do: they bring parameters and buffers to all ranks.
CallOrigin Callers::note(const Signature& signature, std::optional<uint32_t> index, bool isLarge,
                         Caller caller) {
  if (signature.kind != CallKind::broadcast && isOfStep(signature, isLarge))
    nSinceOthers_ = caller == Caller::autograd ? nSinceOthers_ + 1 : 0;
  CallOrigin origin{caller, {}, nSinceOthers_ >= kLongerThanStep};
  if (!index) return origin;
  if (*index >= counts_.size()) counts_.resize(*index + 1);
  counts_[*index].add(caller);
  origin.ever = counts_[*index];
  return origin;
}

}  // namespace cinch
