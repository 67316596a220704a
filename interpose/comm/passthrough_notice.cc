#include "interpose/comm/passthrough_notice.h"

#include "common/stats_format.h"

namespace cinch {

std::string PassthroughNotice::passed(const Signature& signature, uint32_t index,
                                      uint32_t timesPerStep, Reason reason) {
  if (index >= nPassed_.size()) nPassed_.resize(index + 1);
  reasons_.resize(nPassed_.size(), Reason::preparing);
  if (reason != Reason::preparing) reasons_[index] = reason;
  if (++nPassed_[index] < kSteps * timesPerStep) return {};
  isQuiet_ = true;
  const ReasonText text = textOf(reasons_[index]);
  const uint64_t nBytes = signature.count * bytesOf(signature.dataType);
  return std::string(hasCompressed_ ? "nothing is compressed any more: "
                                    : "nothing has been compressed: ") +
         std::to_string(kSteps) + " steps passed " + describe(signature) + ", " +
         std::to_string(nBytes) + " bytes each, as " + text.why + "; " + text.remedy;
}

void PassthroughNotice::compressed() {
  if (nPassed_.empty() && hasCompressed_) return;
  // The line that it ended comes once.
  if (!hasCompressed_) isQuiet_ = false;
  hasCompressed_ = true;
  nPassed_.clear();
  reasons_.clear();
}

std::string PassthroughNotice::gathered(const CommStats& stats) {
  if (++nGathered_ < nextLook_) return {};
  const std::string remark = gatheredRemark(stats.figures());
  nextLook_ = remark.empty() ? 2 * nextLook_ : UINT64_MAX;
  return remark;
}

}  // namespace cinch
