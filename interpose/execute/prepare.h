// Gets a slot ready on all ranks, eagerly and together, so that nothing can split the ranks later.
// Two steps, each at a call of the slot that passes, each ending in a vote: allocate, then make the
// connections. One "no" and all ranks pass for ever.
#pragma once

#include "interpose/comm/comm_state.h"

namespace cinch {

// Takes `slot` as far as it can get at this call: waits for the votes of the step before, then
// takes the next step with work on `stream`. Every rank comes here at the same calls, never in a
// capture. Returns true when the slot is active. An error means that the communicator cannot be
// used.
//
// Waiting for the votes, and for NCCL while it connects, is all that Cinch ever makes the host wait
// in a call; once per slot each.
Result<bool> advanceSlot(CommState& comm, Slot& slot, CUstream_st* stream);

}  // namespace cinch
