// The checkups of a slot on their way (policy/precision/checkup.h): an examined call is also
// reduced exactly, into memory of Cinch's own; rank 0 looks at both off the call path, and proposes
// what follows from it. That is in force from the same later call on, on all ranks; until then
// nothing changes, and nothing else is examined. Where rank 0 is gone nothing changes any more.
//
// How a slot begins comes with the outcome of the votes that make it ready (execute/prepare.h).
#pragma once

#include "interpose/execute/batch.h"

namespace cinch {

// Whether the call will be examined that follows `nBefore` others of its slot that have not begun
// yet.
bool willBeExamined(const BatchItem& item, uint64_t nBefore);

// What rank 0 has said of how the slot begins, before its first call; the same on all ranks.
Result<void> followOpening(CommState& comm, Slot& slot, std::span<const uint8_t> bytes);

// Settles the plan that the call follows, and whether it is examined. An error means that this rank
// cannot follow what the others do.
Result<void> beginCall(BatchItem& item);
// All of the call is enqueued: what was measured will be judged in the background.
Result<void> endCall(BatchItem& item);

// Parts of the stages, without effect where the call is not examined: before encoding;
Result<void> noteInput(BatchItem& item);
// beside the exchange, in the same group of NCCL calls: the user's buffer is still as it was;
Result<void> reduceExactly(const BatchItem& item);
// after decoding;
Result<void> noteResult(const BatchItem& item);
// and last: where the call went without the feedback that its codes need, the program gets the
// exact result.
Result<void> handOverExact(const BatchItem& item);

}  // namespace cinch
