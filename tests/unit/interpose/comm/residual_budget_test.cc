// Runs with CINCH_RESIDUAL_MEMORY=16M.
#include <gtest/gtest.h>

#include "interpose/plan/residual_memory.h"
#include "tests/unit/interpose/support/ranks.h"

namespace cinch {
namespace {

Slot& slotOf(CommState& comm, uint64_t count) {
  for (;;) {
    const auto decision =
        comm.decide({CallKind::allReduce, OpClass::sum, ncclFloat32, count}, nullptr);
    if (decision.reason == Reason::none) return *decision.slot;
  }
}

TEST(ResidualBudget, HoldsForAllSlotsTogether) {
  test::resetFakes();
  const auto ranks = test::makeRanks(2);
  uint64_t used = 0;
  bool isExhausted = false;
  for (uint64_t count = 1 << 20; count < (1 << 20) + 8; ++count) {
    const Slot& slot = slotOf(*ranks[0]->comm, count);
    isExhausted = isExhausted || slot.rule.gain == 0;
    if (slot.rule.gain > 0)
      used += residualSizes(slot.plan, slot.rule.residualType, slot.checkup != nullptr).total();
    EXPECT_LE(used, 16u << 20) << count;
  }
  EXPECT_GT(used, 12u << 20) << "it is there to be used";
  EXPECT_TRUE(isExhausted);
}

}  // namespace
}  // namespace cinch
