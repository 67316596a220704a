// How a launch ends, and its call with it where no other chunk follows: the last of its CTAs to
// finish does that, once all have read the state.
#pragma once

#include "kernels/core/call_state.h"

namespace cinch::cuda {

// Once, at the end, by every thread of the launch's `nRows` rows of the grid, with whether its part
// of the output was finite.
__device__ inline void endLaunch(const CallContext& call, uint32_t nRows, bool allFinite) {
  const bool ctaFinite = __syncthreads_and(allFinite);
  if (threadIdx.x != 0) return;
  SlotState* const state = call.state;
  // Not into poisonOrdinal at once: CTAs that have not begun yet will read it.
  if (!ctaFinite) atomicOr(&state->nonFinite, 1u);
  if (!call.endsCall) return;
  // Around the ticket: what each CTA did before it drew its own is seen by the last one.
  __threadfence();
  if (atomicAdd(&state->ticket, 1u) + 1 < gridDim.x * nRows) return;
  __threadfence();
  atomicExch(&state->ticket, 0u);  // what others do to it are atomics, too
  core::endCall(*state, atomicExch(&state->nonFinite, 0u) == 0);
}

}  // namespace cinch::cuda
