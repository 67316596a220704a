#include "interpose/agree/call_gate.h"

#include <utility>

#include "interpose/agree/agreement_wire.h"
#include "interpose/agree/control_reader.h"
#include "interpose/agree/gate_rounds.h"

namespace cinch {

using State = GateRecord::State;

CallGate::CallGate(uint64_t topic, Propose propose, uint64_t generation)
    : topic_(topic), propose_(std::move(propose)), generation_(generation) {}

bool CallGate::isForked() const {
  return generation_ != forkGeneration();
}

Error CallGate::unknownOutcome() const {
  return errorf(Status::remoteError,
                "control channel: %s while the ranks were deciding from which call on one call "
                "site is not compressed any more, and the others may have decided it: restart "
                "the job",
                isForked() ? "this process was forked" : "the connection ended");
}

Result<bool> CallGate::begin() {
  // A copy in a child may be locked for ever.
  if (isForked()) return unknownOutcome();
  std::unique_lock lock(mutex_);
  State state = record_.nextCall();
  while (state == State::undecided) {
    decided_.wait(lock);
    state = record_.nextCall();
  }
  if (state == State::unknown) return unknownOutcome();
  record_.begin();
  return state == State::open;
}

void CallGate::takeBack() {
  if (isForked()) return;
  std::lock_guard lock(mutex_);
  record_.takeBack();
}

Result<bool> CallGate::close() {
  if (isForked()) return unknownOutcome();
  std::unique_lock lock(mutex_);
  State state = record_.nextCallOnceProposed();
  while (state == State::undecided) {
    if (record_.mustPropose()) {
      const CloseProposal proposal{topic_, record_.begun()};
      lock.unlock();
      propose_(proposal, true);
      lock.lock();
    } else {
      decided_.wait(lock);
    }
    state = record_.nextCallOnceProposed();
  }
  if (state == State::unknown) return unknownOutcome();
  return state == State::closed;
}

void CallGate::closeSoon() {
  if (isForked()) return;
  CloseProposal proposal{topic_, 0};
  {
    std::lock_guard lock(mutex_);
    if (!record_.mustPropose()) return;
    // A little later than its next call, so that this rank's program need not wait there for the
    // outcome, nor one that is a little ahead refuse.
    proposal.ordinal = record_.begun() + kFirstMargin;
  }
  propose_(proposal, false);
}

uint64_t CallGate::begun() const {
  if (isForked()) return 0;
  const std::lock_guard lock(mutex_);
  return record_.begun();
}

bool CallGate::isClosed() const {
  if (isForked()) return false;
  std::lock_guard lock(mutex_);
  return record_.nextCall() == State::closed;
}

Result<std::optional<ClosePrepared>> CallGate::prepare(const ClosePrepare& message) {
  std::lock_guard lock(mutex_);
  return record_.prepare(message);
}

Result<void> CallGate::closed(const GateClosed& message) {
  std::lock_guard lock(mutex_);
  decided_.notify_all();
  return record_.closed(message);
}

Result<void> CallGate::notClosed(const GateNotClosed& message) {
  std::lock_guard lock(mutex_);
  decided_.notify_all();
  return record_.notClosed(message);
}

void CallGate::end() {
  std::lock_guard lock(mutex_);
  record_.end();
  decided_.notify_all();
}

GateTable::GateTable(CallGate::Propose propose)
    : propose_(std::move(propose)), generation_(forkGeneration()) {}

std::shared_ptr<CallGate> GateTable::make(uint64_t topic) {
  auto gate = std::make_shared<CallGate>(topic, propose_, generation_);
  if (ended_) gate->end();
  return gate;
}

std::shared_ptr<CallGate> GateTable::open(uint64_t topic) {
  if (generation_ != forkGeneration())
    return std::make_shared<CallGate>(topic, propose_, generation_);
  std::lock_guard lock(mutex_);
  Entry& entry = gates_[topic];
  if (entry.gate == nullptr) {
    entry.gate = make(topic);
  } else if (!entry.isOpened) {
    nUnopened_--;
  }
  entry.isOpened = true;
  return entry.gate;
}

std::shared_ptr<CallGate> GateTable::find(uint64_t topic) {
  std::lock_guard lock(mutex_);
  const auto found = gates_.find(topic);
  if (found != gates_.end()) return found->second.gate;
  if (nUnopened_ == kMaxOpenGates) return nullptr;
  nUnopened_++;
  return gates_.emplace(topic, Entry{make(topic)}).first->second.gate;
}

Result<std::optional<ClosePrepared>> GateTable::receive(const ClosePrepare& message) {
  const auto gate = find(message.topic);
  if (gate != nullptr) return gate->prepare(message);
  // What cannot be remembered must not be promised. The gate stays open on all ranks.
  return std::optional(ClosePrepared{message.topic, message.ordinal, kNeverCloses});
}

Result<void> GateTable::receive(const GateClosed& message) {
  const auto gate = find(message.topic);
  if (gate != nullptr) return gate->closed(message);
  return errorf(Status::remoteError, "it closes a gate that this rank has not promised to close");
}

Result<void> GateTable::receive(const GateNotClosed& message) {
  const auto gate = find(message.topic);
  return gate == nullptr ? Result<void>() : gate->notClosed(message);
}

void GateTable::end() {
  std::lock_guard lock(mutex_);
  ended_ = true;
  for (const auto& [topic, entry] : gates_) entry.gate->end();
}

}  // namespace cinch
