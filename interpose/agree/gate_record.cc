#include "interpose/agree/gate_record.h"

#include <algorithm>

#include "interpose/agree/agreement_wire.h"

namespace cinch {

GateRecord::State GateRecord::nextCall() const {
  if (closedAt_ <= begun_) return State::closed;
  if (begun_ < preparedAt_) return State::open;
  return ended_ ? State::unknown : State::undecided;
}

GateRecord::State GateRecord::nextCallOnceProposed() const {
  const State state = nextCall();
  if (state != State::open) return state;
  // It closes at a later call, or may not close at this one, or cannot close without this rank.
  const bool staysOpen = closedAt_ != kNeverCloses || begun_ < openBelow_ || ended_;
  return staysOpen ? State::open : State::undecided;
}

void GateRecord::takeBack() {
  if (begun_ > 0) begun_--;
}

bool GateRecord::mustPropose() {
  if (proposed_ || ended_ || closedAt_ != kNeverCloses) return false;
  proposed_ = true;
  return true;
}

Result<std::optional<ClosePrepared>> GateRecord::prepare(const ClosePrepare& message) {
  if (ended_) return std::optional<ClosePrepared>();
  proposed_ = true;
  // A proposal that met the outcome on its way: all ranks know that the gate is closed, none may be
  // the one that refuses.
  if (closedAt_ != kNeverCloses)
    return std::optional(ClosePrepared{message.topic, message.ordinal, 0});
  if (preparedAt_ != kNeverCloses)
    return errorf(Status::remoteError, "it closes one gate at two calls at the same time");
  const uint64_t openBelow = std::max(begun_, openBelow_);
  if (openBelow <= message.ordinal) preparedAt_ = message.ordinal;
  return std::optional(ClosePrepared{message.topic, message.ordinal, openBelow});
}

Result<void> GateRecord::closed(const GateClosed& message) {
  if (ended_ || closedAt_ != kNeverCloses) return {};
  if (preparedAt_ != message.ordinal)
    return errorf(Status::remoteError, "it closes a gate that this rank has not promised to close");
  closedAt_ = message.ordinal;
  preparedAt_ = kNeverCloses;
  return {};
}

Result<void> GateRecord::notClosed(const GateNotClosed& message) {
  if (ended_ || closedAt_ != kNeverCloses) return {};
  if (preparedAt_ != kNeverCloses && preparedAt_ != message.ordinal)
    return errorf(Status::remoteError, "it gives up another call than the one it has asked for");
  preparedAt_ = kNeverCloses;
  openBelow_ = std::max(openBelow_, message.openBelow);
  return {};
}

}  // namespace cinch
