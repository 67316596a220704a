#include "interpose/comm/passthrough_notice.h"

namespace cinch {

std::string PassthroughNotice::passed(const Signature& signature, uint32_t index, Reason reason) {
  hasPassed_ = true;
  if (isQuiet_) return {};
  if (index >= nPassed_.size()) nPassed_.resize(index + 1);
  if (++nPassed_[index] < kSteps) return {};
  isQuiet_ = true;
  const ReasonText text = textOf(reason);
  const uint64_t nBytes = signature.count * bytesOf(signature.dataType);
  return std::string(hasCompressed_ ? "nothing is compressed any more: "
                                    : "nothing has been compressed: ") +
         std::to_string(kSteps) + " steps passed " + describe(signature) + ", " +
         std::to_string(nBytes) + " bytes each, as " + text.why + "; " + text.remedy;
}

void PassthroughNotice::compressed() {
  if (!hasPassed_ && hasCompressed_) return;
  isQuiet_ = isQuiet_ && hasCompressed_;
  hasCompressed_ = true;
  hasPassed_ = false;
  nPassed_.clear();
}

}  // namespace cinch
