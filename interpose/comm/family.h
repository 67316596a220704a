// Communicators that are made from others: ncclCommSplit and ncclCommShrink.
#pragma once

#include "interpose/comm/comm_state.h"

namespace cinch {

// The real NCCL said `result` of what `parent` expects: follows each new communicator from here on
// if it is made, forgets about it if it failed. The ranks of one whose parent agreed say hello to
// each other again.
void followBirths(CommState& parent, ncclResult_t result);

}  // namespace cinch
