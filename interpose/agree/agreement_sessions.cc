#include "interpose/agree/agreement_sessions.h"

#include <algorithm>
#include <utility>

namespace cinch {
void Session::seat(size_t member, const Seat& where) {
  seats.resize(std::max(seats.size(), member + 1));
  seats[member] = where;
}

Error AgreementSessions::noRoom() const {
  return errorf(Status::systemError,
                "agreement server: %zu communicators of this process are in use", sessions_.size());
}

Result<void> AgreementSessions::begin(Nonce nonce, Session session) {
  if (!makeRoom()) return noRoom();
  session.serial = nBegun_++;
  sessions_.insert_or_assign(nonce, std::move(session));
  return {};
}

bool AgreementSessions::makeRoom() {
  if (sessions_.size() < limits_.maxIds) return true;
  auto oldest = sessions_.end();
  for (auto at = sessions_.begin(); at != sessions_.end(); ++at) {
    if (!at->second.isUnused()) continue;
    if (oldest == sessions_.end() || at->second.serial < oldest->second.serial) oldest = at;
  }
  if (oldest == sessions_.end()) return false;
  erase(oldest->first);
  return true;
}

void AgreementSessions::forgetUnused(Nonce nonce) {
  const auto found = sessions_.find(nonce);
  if (found != sessions_.end() && found->second.isUnused()) erase(nonce);
}

void AgreementSessions::erase(Nonce nonce) {
  awaitsTime_.erase(nonce);
  sessions_.erase(nonce);
}

Session* AgreementSessions::find(Nonce nonce) {
  const auto found = sessions_.find(nonce);
  return found == sessions_.end() ? nullptr : &found->second;
}

Result<size_t> AgreementSessions::join(const HelloMessage& message, const IpAddress& from) {
  Session* const found = find(message.nonce);
  if (found != nullptr && found->parent == message.parent) {
    awaitsTime(message.nonce);
    return found->state.join(message.hello, from);
  }
  if (found == nullptr && message.parent != kNoParent) return beginChild(message, from);
  return errorf(Status::remoteError, "this unique id is not, or no longer, in use here");
}

Result<size_t> AgreementSessions::beginChild(const HelloMessage& message, const IpAddress& from) {
  Session* const parent = find(message.parent);
  if (parent == nullptr || !parent->state.inUse()) {
    return errorf(Status::remoteError,
                  "the communicator that this one was made from is not, or no longer, in use here");
  }
  if (parent->failed.count(message.nonce) != 0) {
    return errorf(Status::remoteError, "the other ranks have stopped waiting for this one");
  }
  if (!makeRoom()) {
    rememberFailed(message.parent, message.nonce);
    return noRoom();
  }
  Session child(AgreementSession::ofChild(), message.parent);
  auto joined = child.state.join(message.hello, from);
  if (joined.ok()) CINCH_TRY(begin(message.nonce, std::move(child)));
  return joined;
}

void AgreementSessions::leave(Nonce nonce, size_t member, bool isLost) {
  if (Session* const session = find(nonce)) session->state.leave(member, isLost);
}

std::optional<Message> AgreementSessions::outcomeOf(Nonce nonce, uint64_t round) {
  const Session* const session = find(nonce);
  if (session != nullptr && session->state.outcomes() != nullptr)
    return session->state.outcomes()->outcomeOf(round);
  const auto isIt = [&](const auto& kept) { return kept.first == nonce; };
  const auto found = std::ranges::find_if(outcomes_, isIt);
  return found == outcomes_.end() ? std::nullopt : std::optional(found->second.outcomeOf(round));
}

void AgreementSessions::keepOutcomes(Nonce nonce, const DecisionRounds& rounds) {
  if (outcomes_.size() == limits_.maxOutcomes) outcomes_.pop_front();
  outcomes_.emplace_back(nonce, rounds);
}

void AgreementSessions::endIfOver(Nonce nonce) {
  Session* const session = find(nonce);
  if (session == nullptr || !session->state.over()) return;
  if (!session->state.complete()) rememberFailed(session->parent, nonce);
  if (session->state.outcomes() != nullptr) keepOutcomes(nonce, *session->state.outcomes());
  erase(nonce);
}

// A child's late ranks are turned away at once, not left to wait for the others in vain. It is only
// kindness: each rank greets a child once, so that what is begun anew is never complete.
void AgreementSessions::rememberFailed(Nonce parent, Nonce child) {
  Session* const found = find(parent);
  if (found != nullptr && found->failed.size() < limits_.maxFailed) found->failed.insert(child);
}

Deadline AgreementSessions::deadline() {
  Deadline due = kNoDeadline;
  for (const Nonce nonce : awaitsTime_) due = std::min(due, sessions_.at(nonce).state.deadline());
  return due;
}

std::vector<Nonce> AgreementSessions::expire() {
  std::vector<Nonce> due;
  for (const Nonce nonce : awaitsTime_) {
    AgreementSession& state = sessions_.at(nonce).state;
    if (state.deadline() > Clock::now()) continue;
    state.expire();
    due.push_back(nonce);
  }
  std::erase_if(awaitsTime_, [&](const Nonce nonce) {
    return sessions_.at(nonce).state.deadline() == kNoDeadline;
  });
  return due;
}

}  // namespace cinch
