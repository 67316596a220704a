// The checkups of a slot on their way (policy/precision/checkup.h): an examined call is also
// reduced exactly, into memory of Cinch's own; rank 0 looks at both, and tells all ranks off the
// call path what follows from it. Two calls of the slot later every rank waits for that word and
// obeys it.
//
// How a slot begins, rank 0 says while it gets ready, and every rank hears that at its first call.
//
// Those waits are the only ones which Cinch adds to a call, once in CINCH_GUARD_EVERY calls of a
// slot, and never in a capture. Rank 0 says something however its device does: that nothing
// changes, where the examined call takes too long.
#pragma once

#include "interpose/execute/batch.h"

namespace cinch {

// Whether the call will be examined that follows `nBefore` others of its slot that have not begun
// yet.
bool willBeExamined(const BatchItem& item, uint64_t nBefore);

// Once the slot is connected.
void sayOpening(const BatchItem& item);

// Settles the plan that the call follows, and whether it is examined. May wait for rank 0; an error
// means that the other ranks may go on with what this one has not heard.
Result<void> beginCall(BatchItem& item);
// All of the call is enqueued: what was measured will be judged in the background.
Result<void> endCall(BatchItem& item);

// Parts of the stages, without effect where the call is not examined: before encoding;
Result<void> noteInput(BatchItem& item);
// beside the exchange, in the same group of NCCL calls: the user's buffer is still as it was;
Result<void> reduceExactly(const BatchItem& item);
// after decoding.
Result<void> noteResult(const BatchItem& item);

}  // namespace cinch
