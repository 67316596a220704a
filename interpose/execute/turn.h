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
  CallGate* gate = nullptr;  // that counted the call; lives as long as the communicator

  bool isQuick() const { return strategy == Strategy::quick; }
};

// A counted call of `slot` begins, which passes where the slot is not ready: `isReady` is the same
// on all ranks. At the end of a round it may wait for the other ranks' figures; an error means that
// the communicator cannot be used.
Result<Turn> beginTurn(const std::shared_ptr<CommState>& comm, Slot& slot, bool isReady);

// Around what the turn enqueues on `stream`; without effect where there is no turn. It is not timed
// unless `isEnqueued`.
void startTurn(const CommState& comm, const Turn& turn, CUstream_st* stream);
void endTurn(const CommState& comm, const Turn& turn, CUstream_st* stream, bool isEnqueued);

// The turn, the last one of its slot, did not take place. The communicator fails where too much has
// been heard since to say what its repetition is to do.
void takeBack(CommState& comm, const Turn& turn);

}  // namespace cinch
