// How the calls of a slot follow one another, and what one leaves for the next.
#pragma once

#include "kernels/device_table.h"

namespace cinch::core {

// True where the running call must take every residual as 0 and overwrite it.
CINCH_HD inline bool isPoisoned(const SlotState& state) {
  return state.poisonOrdinal == state.ordinal;
}

// Ends the running call, whose output was finite throughout or not: what is not finite may sit in
// residuals too, in forms that no single rank can see.
CINCH_HD inline void endCall(SlotState& state, bool allFinite) {
  if (!allFinite) state.poisonOrdinal = state.ordinal + 1;
  ++state.ordinal;
}

// The same for scalar code: a launch of the running call is done, after which others may follow.
inline void endLaunch(const CallContext& call, bool allFinite) {
  SlotState& state = *call.state;
  if (!allFinite) state.nonFinite = 1;
  if (!call.endsCall) return;
  endCall(state, state.nonFinite == 0);
  state.nonFinite = 0;
}

}  // namespace cinch::core
