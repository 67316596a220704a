// The server's side of closing gates (call_gate.h) of one communicator: a two-phase commit between
// the ranks' control threads for each topic. Pure.
//
//   a proposal        ->  ClosePrepare to all
//   all have accepted ->  GateClosed to all; the topic is forgotten
//   some refuse       ->  GateNotClosed to all, and ClosePrepare for a later call
//   a rank has left   ->  GateNotClosed to all, for ever: it can promise nothing
//
// At most one round of a topic is under way, so that its outcome answers all who have proposed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "common/result.h"
#include "interpose/agree/agreement_wire.h"

namespace cinch {

// Rounds of one communicator at the same time, and gates of which a rank remembers an outcome
// before it has opened them.
inline constexpr size_t kMaxOpenGates = 4096;

// How far beyond the furthest rank's calls the first retry goes. A call site is called about once a
// step, every few milliseconds or more, and a round takes about one: the furthest rank may begin
// two more calls meanwhile. Each further try doubles it, so that ranks whose calls come faster than
// answers are overtaken after a few.
inline constexpr uint64_t kFirstMargin = 2;

class GateRounds {
 public:
  // `nMembers` members, numbered from 0, will answer each ClosePrepare.
  explicit GateRounds(size_t nMembers) : nMembers_(nMembers) {}

  // Appends what all members are to be sent. `canClose`: all ranks are there.
  void propose(const CloseProposal& proposal, bool canClose, std::vector<Message>& out);
  // An error where the member breaks the protocol.
  Result<void> prepared(size_t member, const ClosePrepared& answer, std::vector<Message>& out);
  // Some member has left.
  void giveUp(std::vector<Message>& out);

 private:
  struct Round {
    uint64_t ordinal = 0;
    uint64_t margin = kFirstMargin;
    std::vector<bool> answered;  // by member
    size_t nAnswered = 0;
    uint64_t openBelow = 0;  // the highest of those that answered
  };

  void begin(uint64_t topic, Round& round, std::vector<Message>& out) const;
  void finish(uint64_t topic, std::vector<Message>& out);

  size_t nMembers_;
  std::map<uint64_t, Round> rounds_;  // by topic
};

}  // namespace cinch
