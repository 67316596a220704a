// Communicators that are made from others: ncclCommSplit and ncclCommShrink.
#pragma once

#include "interpose/comm/comm_state.h"

namespace cinch {

// The call that makes a communicator from `parent` has returned `result`: follows the communicator
// from here on if it is made, and awaits it if NCCL is still at it. The ranks of one whose parent
// agreed have a handshake of their own.
void followBirth(CommState& parent, const Birth& birth, ncclResult_t result);

// The real NCCL reports `result` of `parent`: the same for all that is awaited of it, which is
// dropped after an error. False is Births::take()'s.
bool followAwaited(CommState& parent, ncclResult_t result);

}  // namespace cinch
