#include "interpose/plan/residual_memory.h"

namespace cinch {

ResidualSizes residualSizes(const CollectivePlan& plan, ResidualType type, bool mayMove) {
  const uint64_t bucket = plan.encodeResidualBytes(type);
  return {bucket, mayMove && !plan.isPair ? bucket : plan.reduceResidualBytes(type)};
}

CodingRule withinMemory(const CodingRule& rule, const CollectivePlan& plan, bool mayMove,
                        uint64_t bytesLeft) {
  CodingRule fitting = rule;
  if (rule.gain == 0 || !plan.hasResiduals()) return fitting;
  for (const ResidualType type : {ResidualType::fp32, ResidualType::bf16, ResidualType::int8}) {
    if (type < rule.residualType) continue;
    fitting.residualType = type;
    if (residualSizes(plan, type, mayMove).total() <= bytesLeft) return fitting;
  }
  fitting.gain = 0;
  return fitting;
}

}  // namespace cinch
