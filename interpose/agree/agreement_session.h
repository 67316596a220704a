// The server's side of one communicator, as a state machine without sockets, clocks or threads:
// what ranks say goes in, what all of them are told comes out.
//
//   gathering   until all ranks have said hello, or the first has reported that its real init
//               returned and the others had a moment to report what they know of the missing; a
//               child's, until all have said hello or one has left
//   decided     the verdict has gone out; votes are counted
//   over        all who came have left
//
// One that is taken over begins as decided: its ranks had their handshake elsewhere, and join one
// by one; nothing is decided before all are there, and who does not join in time has left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/network/socket.h"
#include "common/result.h"
#include "interpose/agree/agreement_verdict.h"
#include "interpose/agree/agreement_wire.h"
#include "interpose/agree/call_comparison.h"
#include "interpose/agree/decision_rounds.h"
#include "interpose/agree/figure_pools.h"
#include "interpose/agree/open_votes.h"

namespace cinch {

class AgreementSession {
 public:
  // `server` is the server's own address; `reportTime` is how long after the first report the
  // others' are waited for.
  AgreementSession(const IpAddress& server, std::chrono::milliseconds reportTime)
      : reports_{server, reportTime} {}

  // For a communicator made from another one. All of its ranks run Cinch and come when they like,
  // so that a missing one proves nothing and no reports are made.
  static AgreementSession ofChild();
  // For `nRanks` ranks that have agreed elsewhere, on compression. `arrivalTime` is how long after
  // the first one the others may come.
  static AgreementSession takenOver(int nRanks, std::chrono::milliseconds arrivalTime);

  // A rank says hello from `from`: the member's number, or why it is turned away.
  Result<size_t> join(const Hello& hello, const IpAddress& from);

  // A member's later messages. After an error the member must be dropped (and leave() called).
  Result<void> report(size_t member, const Initialised& report);
  Result<void> vote(size_t member, const Vote& vote);
  Result<void> retract(size_t member, const Retraction& retraction);
  Result<void> pool(size_t member, const Figures& figures);
  Result<void> propose(size_t member, const Proposal& proposal);
  Result<void> prepared(size_t member, const Prepared& answer);
  Result<void> compare(size_t member, const Trail& trail);

  // A member's part in it has ended; `isLost`: with its connection, so that it may be in doubt.
  void leave(size_t member, bool isLost);
  // The member of that rank, while it has a part in it.
  std::optional<size_t> memberOf(int rank) const;
  // What was decided, where a member that was lost may ask for it; else null.
  const DecisionRounds* outcomes() const;

  // When expire() has something to do, kNoDeadline for never.
  Deadline deadline() const;
  // The deadline has passed: decides with the reports that are there, or gives up the figures that
  // have waited too long for others, or the ranks that have not come.
  void expire();
  bool inUse() const { return present_ > 0; }
  bool over() const { return !members_.empty() && present_ == 0; }
  // All ranks have said hello, so that none is still to come. Not before the first.
  bool complete() const { return members_.size() >= static_cast<size_t>(members_[0].hello.nRanks); }

  // What all members that have not left are to be sent now, in order. Where all are there, they are
  // asked about what is to be decided.
  std::vector<Message> takeBroadcasts();

 private:
  // Of real inits that have returned.
  struct Reports {
    IpAddress server;
    std::chrono::milliseconds time{};
    Deadline due = kNoDeadline;
  };
  // Of those that have said hello.
  struct Admitted {
    std::vector<bool> ranks;
    std::string conflict;  // why they cannot be told apart; empty: they can
  };
  // Of members of a session that was taken over.
  struct Arrivals {
    std::chrono::milliseconds time{};
    size_t nAwaited = 0;
    Deadline due = kNoDeadline;
  };

  Result<size_t> arrive(const Hello& hello, const IpAddress& from);
  Result<void> admit(const Hello& hello);
  Verdict judged() const { return judge(members_, reports_.server, admitted_.conflict); }
  void decide(const Verdict& verdict);
  Result<void> decideAll(std::vector<Decision> decisions);

  enum class Kind { ofId, ofChild, takenOver } kind_ = Kind::ofId;
  Reports reports_;
  Arrivals arrivals_;
  std::vector<Member> members_;
  size_t present_ = 0;
  Admitted admitted_;
  bool decided_ = false;
  OpenVotes votes_;
  FigurePools pools_;
  std::optional<DecisionRounds> rounds_;  // where the verdict is to compress
  CallComparison calls_;
  std::vector<Message> broadcasts_;
};

}  // namespace cinch
