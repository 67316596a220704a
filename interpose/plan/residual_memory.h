// How a slot keeps its residuals within the memory that is left. Pure. A rank's own affair: what it
// sends has the same form whatever it keeps.
#pragma once

#include "interpose/plan/collective_plan.h"

namespace cinch {

// Bytes of the residual of stage 1, and of that of stage 2, which covers the whole bucket where the
// owned shard may move.
struct ResidualSizes {
  uint64_t encode, reduce;
  uint64_t total() const { return encode + reduce; }
};
ResidualSizes residualSizes(const CollectivePlan& plan, ResidualType type, bool mayMove);

// `rule` with the richest form of residuals, no richer than its own, that takes `bytesLeft` at
// most; without feedback where none does.
CodingRule withinMemory(const CodingRule& rule, const CollectivePlan& plan, bool mayMove,
                        uint64_t bytesLeft);

}  // namespace cinch
