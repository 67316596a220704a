#include "interpose/agree/decisions.h"

#include <atomic>
#include <utility>

#include "interpose/agree/agreement_wire.h"
#include "interpose/agree/control_reader.h"
#include "interpose/agree/group_marks.h"
#include "interpose/agree/open_votes.h"

namespace cinch {
namespace {

using State = DecisionRecord::State;

std::atomic<uint64_t> nWaits{0};
std::atomic<int64_t> waitedNs{0};

}  // namespace

Decisions::Decisions(Propose propose)
    : propose_(std::move(propose)), generation_(forkGeneration()) {}

Decisions::~Decisions() {
  if (!isForked()) end();
}

bool Decisions::isForked() const {
  return generation_ != forkGeneration();
}

Decisions::Waits Decisions::waits() {
  return {nWaits.load(), std::chrono::nanoseconds(waitedNs.load())};
}

// All waiting of programs is here, and counted. False where it is not met by the deadline.
template <class Condition>
bool Decisions::waitUntil(std::unique_lock<std::mutex>& lock, Deadline deadline,
                          const Condition& isMet) {
  if (isMet()) return true;
  nWaits.fetch_add(1, std::memory_order_relaxed);
  const Clock::time_point begin = Clock::now();
  bool inTime = true;
  if (deadline == kNoDeadline)
    changed_.wait(lock, isMet);
  else
    inTime = changed_.wait_until(lock, deadline, isMet);
  waitedNs.fetch_add((Clock::now() - begin) / std::chrono::nanoseconds(1),
                     std::memory_order_relaxed);
  return inTime;
}

Error Decisions::unknownOutcome() const {
  return errorf(Status::remoteError,
                "control channel: %s while the ranks were deciding from which call on they go on "
                "in another way, and the others may have decided it: restart the job",
                isForked() ? "this process was forked" : "the connection ended");
}

// What is promised before the next call, or may be asked for, is still to be told.
bool Decisions::isUnresolved() const {
  return record_.state() == State::marked || (record_.state() == State::inDoubt && isAsking_);
}

Result<void> Decisions::awaitOutcome(std::unique_lock<std::mutex>& lock) {
  if (record_.state() == State::marked) record_.noteWait();
  waitUntil(lock, kNoDeadline, [this] { return !isUnresolved(); });
  return record_.state() == State::free ? Result<void>() : unknownOutcome();
}

Result<Claimed> Decisions::claim() {
  // A copy in a child may be locked for ever.
  if (isForked()) return unknownOutcome();
  std::unique_lock lock(mutex_);
  CINCH_TRY(awaitOutcome(lock));
  Claimed claimed{record_.claimed()};
  claimed.decisions = record_.claim();
  claimed.isOver = record_.isOver();
  return claimed;
}

void Decisions::takeBack() {
  if (isForked()) return;
  const std::lock_guard lock(mutex_);
  record_.takeBack();
}

uint64_t Decisions::claimed() const {
  if (isForked()) return 0;
  const std::lock_guard lock(mutex_);
  return record_.claimed();
}

Result<bool> Decisions::isDecidedBeforeNext(uint64_t topic) {
  if (isForked()) return unknownOutcome();
  std::unique_lock lock(mutex_);
  CINCH_TRY(awaitOutcome(lock));
  std::optional<bool> isInForce = record_.isInForceAtNext(topic);
  if (isInForce) return *isInForce;
  const Proposal proposal{topic, record_.claimed(), {}};
  lock.unlock();
  const GroupSuspended suspended;
  propose_(proposal, true);
  lock.lock();
  waitUntil(lock, kNoDeadline, [&] {
    if (record_.state() == State::inDoubt) return !isAsking_;
    isInForce = record_.isInForceAtNext(topic);
    return isInForce.has_value();
  });
  return record_.state() == State::inDoubt ? Result<bool>(unknownOutcome()) : *isInForce;
}

void Decisions::decideSoon(uint64_t topic) {
  if (!isForked()) propose_({topic, kNoOrdinal, {}}, false);
}

Result<std::optional<Decision>> Decisions::await(uint64_t topic, Deadline deadline,
                                                 const std::function<void()>& whenLate) {
  if (isForked()) return unknownOutcome();
  const GroupSuspended suspended;
  std::unique_lock lock(mutex_);
  const Decision* found = nullptr;
  const auto isKnown = [&] {
    found = record_.findCommitted(topic);
    const bool isOver = record_.isOver() && !isAsking_;
    return found != nullptr || isOver || missed_.contains(topic);
  };
  bool inTime = waitUntil(lock, deadline, isKnown);
  if (!inTime && whenLate) {
    lock.unlock();
    whenLate();
    lock.lock();
    inTime = waitUntil(lock, kNoDeadline, isKnown);
  }
  missed_.erase(topic);
  if (found != nullptr) return std::optional(*found);
  if (hasLeft_ || (record_.hasEnded() && record_.isMarked())) return unknownOutcome();
  if (inTime) return std::optional<Decision>();
  return errorf(Status::remoteError, "control channel: the ranks have not decided in time");
}

void Decisions::setPeriod(uint64_t calls) {
  if (isForked()) return;
  const std::lock_guard lock(mutex_);
  record_.setPeriod(calls);
}

bool Decisions::isInDoubt() const {
  if (isForked()) return true;
  const std::lock_guard lock(mutex_);
  return record_.hasEnded() && record_.isMarked();
}

bool Decisions::isOver() const {
  if (isForked()) return true;
  const std::lock_guard lock(mutex_);
  return record_.isOver();
}

Result<std::optional<Prepared>> Decisions::receive(const Prepare& message) {
  const std::lock_guard lock(mutex_);
  const bool isBusy = !addMark(message.insists);
  auto answer = record_.prepare(message, isBusy);
  const bool isAccepted =
      answer.ok() && answer.value() && answer.value()->answer == Prepared::Answer::accepted;
  if (!isBusy && !isAccepted) removeMark();
  hasMark_ = hasMark_ || isAccepted;
  return answer;
}

Result<void> Decisions::receive(const Commit& message) {
  const std::lock_guard lock(mutex_);
  return settled(record_.commit(message));
}

Result<void> Decisions::receive(const Withdraw& message) {
  const std::lock_guard lock(mutex_);
  return settled(record_.withdraw(message));
}

Result<void> Decisions::receive(const Missed& message) {
  const std::lock_guard lock(mutex_);
  if (missed_.size() == kMaxOpenTopics)
    return errorf(Status::remoteError, "more than %zu votes that were taken back", kMaxOpenTopics);
  missed_.insert(message.topic);
  changed_.notify_all();
  return {};
}

Result<void> Decisions::settled(Result<void> taken) {
  if (!record_.isMarked()) {
    dropMark();
    isAsking_ = false;
  }
  changed_.notify_all();
  return taken;
}

void Decisions::dropMark() {
  if (std::exchange(hasMark_, false)) removeMark();
}

// Who is in doubt waits, or fails, at the call that it has promised not to make, not where it opens
// a group.
std::optional<uint64_t> Decisions::lose() {
  const std::lock_guard lock(mutex_);
  if (record_.hasEnded()) return {};
  record_.end();
  dropMark();
  isAsking_ = record_.isMarked();
  changed_.notify_all();
  return record_.markedRound();
}

bool Decisions::isAsking() const {
  if (isForked()) return false;
  const std::lock_guard lock(mutex_);
  return isAsking_;
}

void Decisions::end() {
  const std::lock_guard lock(mutex_);
  record_.end();
  dropMark();
  isAsking_ = false;
  hasLeft_ = true;
  changed_.notify_all();
}

}  // namespace cinch
