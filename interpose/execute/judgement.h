// What rank 0 makes of a slot before its first call and of each examined one, off the call path,
// and proposes to all ranks.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "interpose/comm/comm_state.h"

namespace cinch {

// What the decision is called that follows from that examined call of the slot. Call path.
uint64_t precisionTopic(const Slot& slot, uint64_t call);

// Whether the slot's first call follows an opening of rank 0's.
bool hasOpening(const Slot& slot);
// The slot is about to get ready: hands the opening's bytes to `send`, none where it cannot be
// made.
void openInBackground(const std::shared_ptr<CommState>& comm, Slot& slot,
                      const std::function<void(std::span<const uint8_t>)>& send);

// The call has been enqueued, and what was measured may still be on its way. Something is proposed
// in any case: that nothing changes where nothing was measured, or where the device is late.
void judgeInBackground(const std::shared_ptr<CommState>& comm, Slot& slot, uint64_t call,
                       bool isMeasured);

}  // namespace cinch
