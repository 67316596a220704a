// How a launch ends its call: the last CTA of the grid to finish does it, once all have read the
// state.
#pragma once

#include "kernels/core/call_state.h"

namespace cinch::cuda {

// Once, at the end, by every thread, with whether its part of the output was finite.
__device__ inline void endCall(SlotState* state, bool allFinite) {
  const bool ctaFinite = __syncthreads_and(allFinite);
  if (threadIdx.x != 0) return;
  // Not into poisonOrdinal at once: CTAs that have not begun yet will read it.
  if (!ctaFinite) atomicOr(&state->nonFinite, 1u);
  __threadfence();
  if (atomicAdd(&state->ticket, 1u) + 1 < gridDim.x * gridDim.y) return;
  state->ticket = 0;
  core::endCall(*state, atomicExch(&state->nonFinite, 0u) == 0);
}

}  // namespace cinch::cuda
