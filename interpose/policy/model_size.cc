#include "interpose/policy/model_size.h"

#include "interpose/policy/evidence.h"

namespace cinch {

void ModelSize::note(const Signature& signature, bool isLarge, bool isNew) {
  const bool isOfStep = cinch::isOfStep(signature, isLarge);
  const bool isBroadcast = signature.kind == CallKind::broadcast;
  hasReduced_ = hasReduced_ || (isOfStep && isReduction(signature.kind));
  const bool areBytes = signature.dataType == ncclUint8 || signature.dataType == ncclInt8;
  if (isBroadcast && isOfStep && hasReduced_ && isNew) *this = {};
  // Images of each step, for the ranks that share them: no parameters.
  if (isBroadcast && areBytes && isLarge && hasReduced_ && !isNew) untyped_ = 0;
  if (hasReduced_) return;
  const bool areValues = isBroadcast && isCompressibleType(signature.dataType);
  if (areValues) parameters_ += signature.count;
  if (areValues && !isLarge) small_ += signature.count;
  if (isBroadcast && areBytes) untyped_ += signature.count;
  if (isLarge && signature.kind == CallKind::allGather) gathered_ += signature.count;
}

uint64_t ModelSize::parametersFor(uint64_t reduced, bool areShards) const {
  if (areShards || isModel(reduced, parameters_)) return parameters_;
  if (isModel(reduced, parameters_ - small_)) return parameters_ - small_;
  for (const uint64_t bytesOfOne : {4, 2})
    if (isModel(reduced, parameters_ + untyped_ / bytesOfOne))
      return parameters_ + untyped_ / bytesOfOne;
  return parameters_;
}

}  // namespace cinch
