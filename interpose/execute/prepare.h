// Gets a slot ready on all ranks, eagerly and together, so that nothing can split the ranks later:
// memory is allocated, connections are made, and one "no" means that all pass.
#pragma once

#include "interpose/comm/comm_state.h"

namespace cinch {

// Allocates what `slot` needs, votes, and warms the connections on `stream`. Every rank comes here
// at the same call, never in a capture. An error means that the communicator is not usable any
// more.
Result<void> prepareSlot(CommState& comm, Slot& slot, CUstream_st* stream);

// Waits until all ranks have voted and moves the slot on: the only wait of the host that Cinch adds
// to a call, once per slot.
Result<void> awaitReady(CommState& comm, Slot& slot);

}  // namespace cinch
