#include "kernels/core/call_state.h"

#include <gtest/gtest.h>

namespace cinch::core {
namespace {

SlotState startingAt(uint32_t ordinal) {
  SlotState state{};
  state.ordinal = ordinal;
  return state;
}

TEST(CallState, FiniteCallsOnlyCount) {
  SlotState state = startingAt(4);
  endCall(state, true);
  EXPECT_EQ(state.ordinal, 5u);
  EXPECT_EQ(state.poisonOrdinal, 0u);
}

TEST(CallState, PoisonIsForTheNextCallAlone) {
  SlotState state = startingAt(4);
  EXPECT_FALSE(isPoisoned(state));
  endCall(state, false);
  EXPECT_TRUE(isPoisoned(state));
  endCall(state, true);
  EXPECT_FALSE(isPoisoned(state));
}

TEST(CallState, PoisonSurvivesTheWrapOfOrdinals) {
  SlotState state = startingAt(0xffffffff);
  endCall(state, false);
  EXPECT_EQ(state.ordinal, 0u);
  EXPECT_TRUE(isPoisoned(state));
}

}  // namespace
}  // namespace cinch::core
