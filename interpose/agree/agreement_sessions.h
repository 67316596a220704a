// The sessions that one server keeps: those of the ids that its process has made, those of
// communicators made from theirs, and those that its process takes over as rank 0. No sockets, no
// threads.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/network/socket.h"
#include "common/result.h"
#include "interpose/agree/agreement_session.h"

namespace cinch {

struct SessionLimits {
  size_t maxIds = 16384;    // sessions; beyond, the oldest that nobody has used is forgotten
  size_t maxFailed = 4096;  // remembered children of one parent
  // Sessions that are over, and that a rank may still ask about: as many as one outage may leave
  // when all their ranks lose their connections. Beyond, the oldest is forgotten.
  size_t maxOutcomes = 1024;
};

using Nonce = uint64_t;
using ConnectionId = uint64_t;  // never used twice, so that a late event hits nobody else

// Where a member's messages go.
struct Seat {
  ConnectionId connection = 0;  // 0: nowhere yet
  Channel channel = 0;
};

struct Session {
  explicit Session(AgreementSession fresh, Nonce parent = kNoParent)
      : state(std::move(fresh)), parent(parent) {}

  bool isUnused() const { return seats.empty(); }
  void seat(size_t member, const Seat& where);

  AgreementSession state;
  std::vector<Seat> seats;  // by member
  uint64_t serial = 0;      // counts the sessions of this server
  Nonce parent;
  std::set<Nonce> failed;  // children that ended while ranks were still to come
};

class AgreementSessions {
 public:
  explicit AgreementSessions(const SessionLimits& limits) : limits_(limits) {}

  // Begins one that ranks may join. Fails where all there is room for are in use.
  Result<void> begin(Nonce nonce, Session session);
  // Forgets one that nobody has joined.
  void forgetUnused(Nonce nonce);

  // A rank's hello from `from`: its number as a member, or why it is turned away. Begins the
  // session of a communicator made from another one.
  Result<size_t> join(const HelloMessage& message, const IpAddress& from);
  // Null where there is none.
  Session* find(Nonce nonce);
  // A member has left, or is lost with its connection. The session ends with the last one.
  void leave(Nonce nonce, size_t member, bool isLost);
  // What became of that round; none where nobody knows. Who asks has left.
  std::optional<Message> outcomeOf(Nonce nonce, uint64_t round);

  // When expire() has something to do for a session that awaitsTime() was called for.
  void awaitsTime(Nonce nonce) { awaitsTime_.insert(nonce); }
  Deadline deadline();
  // The sessions whose deadlines have passed, which have done what was due.
  std::vector<Nonce> expire();
  // Ends a session that is over.
  void endIfOver(Nonce nonce);

 private:
  bool makeRoom();
  void erase(Nonce nonce);
  void keepOutcomes(Nonce nonce, const DecisionRounds& rounds);
  Error noRoom() const;
  Result<size_t> beginChild(const HelloMessage& message, const IpAddress& from);
  void rememberFailed(Nonce parent, Nonce child);

  SessionLimits limits_;
  std::map<Nonce, Session> sessions_;
  std::set<Nonce> awaitsTime_;  // those that may have a deadline
  uint64_t nBegun_ = 0;
  std::deque<std::pair<Nonce, DecisionRounds>> outcomes_;  // of sessions that are over
};

}  // namespace cinch
