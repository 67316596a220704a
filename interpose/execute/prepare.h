// Gets a slot ready on all ranks, eagerly and together, so that nothing can split the ranks later.
// Two steps, each after a call of the slot that passed, each ending in a vote: allocate, then make
// the connections. One "no" and all ranks pass for ever.
//
// A step is taken when a call has been executed, and its votes are heard at a later call: a group
// that is only simulated leaves no trace, and a thread that drives several ranks never waits for
// itself. Waiting for the votes, and for NCCL while it connects, is all that Cinch ever makes the
// host wait in a call; once per slot each. Never in a capture.
#pragma once

#include "interpose/comm/comm_state.h"

namespace cinch {

// Before a call of `slot`: true where all ranks are ready for it to be compressed. An error means
// that the communicator cannot be used.
Result<bool> isReady(CommState& comm, Slot& slot);

// After a call of `slot` has passed on `stream`: takes the next step. True where that is to
// connect: the caller then runs the slot's messages once, whatever they hold, and calls
// connected().
Result<bool> takeNextStep(CommState& comm, Slot& slot, CUstream_st* stream);
void connected(CommState& comm, Slot& slot);

// The calls of `slot` are not to be compressed after all, as all ranks know at this call. It has
// never been active; what it got ready with is given back, and it may begin anew.
void giveBack(CommState& comm, Slot& slot);

}  // namespace cinch
