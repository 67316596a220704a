// What rank 0 makes of a slot before its first call and of each examined one, off the call path,
// and tells all ranks.
#pragma once

#include <memory>

#include "interpose/comm/comm_state.h"

namespace cinch {

// What the word that is heard before that call of the slot is called on the agreement channel. Call
// path.
uint64_t judgementTopic(const Slot& slot, uint64_t heardBefore);

// The slot is about to get ready, and its first call will hear the opening.
void openInBackground(const std::shared_ptr<CommState>& comm, Slot& slot);

// The call has been enqueued, and what was measured may still be on its way. A word will be said in
// any case: that nothing changes where nothing was measured, or where the device is late and this
// rank itself has come to need the word.
void judgeInBackground(const std::shared_ptr<CommState>& comm, Slot& slot, uint64_t call,
                       bool isMeasured);

}  // namespace cinch
