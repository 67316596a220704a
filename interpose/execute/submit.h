// The way of one collective call of a communicator that Cinch follows.
#pragma once

#include "interpose/execute/open_group.h"

namespace cinch {

// Decides on `call` of a communicator and carries it out: compressed, now or at the end of the open
// group, or handed to NCCL by `pass`, which calls the real function with the caller's arguments
// (and holds copies of them, as it may be called later). Returns what the program is to be told.
ncclResult_t submit(const std::shared_ptr<CommState>& comm, const Collective& call,
                    const Pass& pass);

}  // namespace cinch
