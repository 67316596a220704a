// Gets a slot ready on all ranks, eagerly and together, so that nothing can split the ranks later.
// Two steps, each after a call of the slot that passed, each ending in a vote: allocate, then make
// the connections. One "no" and all ranks pass for ever.
//
// A step is taken when a call has been executed, so that a group that is only simulated leaves no
// trace. Its outcome is in force from the same later call on, on all ranks (docs/agreement.md,
// "Decisions"); until then the slot's calls pass.
//
// While NCCL connects, each host waits for the others' programs. Cinch lets it begin only when all
// ranks have met at that call, which they try for a limited time: the one rendezvous that there is,
// once for the slots that need the same connections, and one that every rank can leave. Never in a
// capture.
#pragma once

#include "interpose/comm/comm_state.h"

namespace cinch {

// Before the call of that number, which is one of `slot`: true where all ranks are ready for it to
// be compressed. An error means that the communicator cannot be used.
Result<bool> isReady(CommState& comm, Slot& slot, uint64_t call);

// Whether NCCL has made for another slot all connections that `slot` needs: the caller then calls
// connected().
bool needsNoConnections(const CommState& comm, const Slot& slot);

// After a call of `slot` has passed on `stream`: takes the next step. True where that is to
// connect: where it needs connections, the caller then meets the other ranks.
Result<bool> takeNextStep(CommState& comm, Slot& slot, uint64_t call, CUstream_st* stream);

// This rank is at `call`, after which NCCL is to connect the ranks: false where it cannot tell the
// others. And whether all are, which is waited for until `patience`. A thread that drives several
// ranks arrives with all before it waits for any. Where they have met, the caller runs the slot's
// messages once, whatever they hold, and calls connected().
bool arriveToConnect(CommState& comm, Slot& slot, uint64_t call);
Result<bool> haveMetToConnect(CommState& comm, Slot& slot, uint64_t call, Deadline patience);
void connected(const std::shared_ptr<CommState>& comm, Slot& slot);

// The calls of `slot` are not to be compressed after all, as all ranks know at this call. It has
// never been active; what it got ready with is given back, and it may begin anew.
void giveBack(CommState& comm, Slot& slot);

}  // namespace cinch
