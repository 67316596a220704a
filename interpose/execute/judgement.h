// What rank 0 makes of an examined call, off the call path, and tells all ranks.
#pragma once

#include <memory>

#include "interpose/comm/comm_state.h"

namespace cinch {

// What the word on that call of the slot is called on the agreement channel.
uint64_t judgementTopic(const Slot& slot, uint64_t call);

// The call has been enqueued, and what was measured may still be on its way. A word will be said in
// any case: that nothing changes where nothing was measured, or where the device is late and this
// rank itself has come to need the word.
void judgeInBackground(const std::shared_ptr<CommState>& comm, Slot& slot, uint64_t call,
                       bool isMeasured);

}  // namespace cinch
