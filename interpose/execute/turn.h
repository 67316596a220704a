// The turns of a slot on their way: policy/strategy.h says what they are for.
#pragma once

#include <memory>

#include "interpose/comm/comm_state.h"

namespace cinch {

// A turn of a slot that is timed.
struct Turn {
  Slot* slot = nullptr;  // null: the call is not one
  uint64_t number = 0;
  Strategy strategy = Strategy::compress;
  bool isNumbered = false;  // the call is, and so may be one that is not timed

  bool isQuick() const { return strategy == Strategy::quick; }
};

// The counted call of that number, which is one of `slot`, begins. It passes where the slot is not
// ready: `isReady` is the same on all ranks. An error means that the communicator cannot be used.
Result<Turn> beginTurn(const std::shared_ptr<CommState>& comm, Slot& slot, bool isReady,
                       uint64_t call);

// Around what the turn enqueues on `stream`; without effect where there is no turn. It is not timed
// unless `isEnqueued`.
void startTurn(const CommState& comm, const Turn& turn, CUstream_st* stream);
void endTurn(const CommState& comm, const Turn& turn, CUstream_st* stream, bool isEnqueued);

// The last counted call, which had this turn, did not take place. The communicator fails where it
// is too late to make it again as the other ranks will.
void takeBack(CommState& comm, const Signature& signature, const Turn& turn);

}  // namespace cinch
