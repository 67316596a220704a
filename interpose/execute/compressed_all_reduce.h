// The stages of one compressed AllReduce, enqueued on the caller's stream.
#pragma once

#include "interpose/execute/all_reduce.h"

namespace cinch {

// Encode, exchange, reduce, gather, decode. `slot` is active. An error means that some work was
// enqueued and the result is not to be used. Nothing here waits, allocates or locks.
Result<void> compressAllReduce(CommState& comm, Slot& slot, const AllReduceCall& call);

}  // namespace cinch
