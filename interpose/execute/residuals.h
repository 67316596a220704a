// When memory for residuals is taken and given back. With CINCH_WHEN=always a slot has its own from
// when it gets ready; else all slots of a step have theirs from when full is first tried until it
// has lost (policy/selector/selector.h).
#pragma once

#include "interpose/comm/comm_state.h"

namespace cinch {

// For all: `only` is the slot that is meant, null: all slots of the communicator.

// Takes memory for residuals, and tells the other ranks over `topic` whether all is there.
void askForResiduals(CommState& comm, Slot* only, uint64_t topic);
// No call that was made, or is under way, uses them any more.
Result<void> giveResidualsBack(CommState& comm, Slot* only, void* stream);

// `slot` gets ready: takes its residuals, where those of the communicator's slots are held now.
Result<void> takeResidualsToBegin(CommState& comm, Slot& slot, void* stream);

}  // namespace cinch
