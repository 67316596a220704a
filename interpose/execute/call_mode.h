// How each call is sent: plain, or compressed and how. policy/selector/selector.h says why.
#pragma once

#include <memory>

#include "interpose/comm/comm_state.h"

namespace cinch {

struct CallMode {
  Slot* slot = nullptr;  // whose calls are counted; null: it is compressed whatever that costs
  Sending sending = Sending::full;
  // False: no rank holds residuals of the slot's. A full call is an audit then, whose exact result
  // is the program's.
  bool hasFeedback = true;
  uint64_t numberBefore = 0;  // the slot's (SlotCalls::number)
  bool isNumbered = false;    // the call is

  bool isStateless() const { return sending == Sending::stateless; }
};

// A numbered call is about to be made: where it begins a period, that is timed from here on, and
// how it is sent is settled. An error means that the communicator cannot be used.
Result<void> followPeriods(const std::shared_ptr<CommState>& comm,
                           const CommState::Decision& decision, const PeriodStart& start);

// The same call is ready to be compressed, or is getting ready: that is the same on all ranks.
Result<CallMode> chooseMode(const std::shared_ptr<CommState>& comm,
                            const CommState::Decision& decision, bool isReady, PeriodStart start);

// The last counted call of `comm`, which had this mode, did not take place. The communicator fails
// if it is too late to make it again as the other ranks will.
void takeBack(CommState& comm, const Signature& signature, const CallMode& mode);

}  // namespace cinch
