// The server's side of decisions (decision_record.h) of one communicator: a two-phase commit
// between its ranks' control threads, one at a time. Pure.
//
//   something to decide  ->  Prepare to all, for a call some way ahead of all
//   all have accepted    ->  Commit to all
//   some refuse          ->  Withdraw to all, and Prepare for a later call
//   a rank has left      ->  Withdraw to all, for ever: it can promise nothing
#pragma once

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "common/network/socket.h"
#include "common/result.h"
#include "interpose/agree/agreement_wire.h"

namespace cinch {

// Decisions of one communicator that wait for their round, and bytes in one round: a slot or two of
// each of a few thousand call sites, and what fits into one message.
inline constexpr size_t kMaxPendingDecisions = 16384;
inline constexpr size_t kMaxRoundBytes = kMaxServerBytes / 2;

// How long the server waits before it asks again where a rank had an NCCL group open: a group lasts
// some ten microseconds, or as long as NCCL connects. Each time twice as long, up to the second;
// then it insists: among many ranks some would always have one open.
inline constexpr std::chrono::milliseconds kShortestRest{2}, kLongestRest{64};

class DecisionRounds {
 public:
  // `nMembers` members, numbered from 0, answer each Prepare.
  explicit DecisionRounds(size_t nMembers) : nMembers_(nMembers) {}

  // To be decided in a round to come; `at`: from that call on, if no rank has claimed it. What is
  // to be decided on its topic already is enough. An error where there is too much.
  Result<void> add(Decision decision, uint64_t at = kNoOrdinal);
  // Asks for promises, if there is something to decide and nothing under way. All are there.
  void begin(std::vector<Message>& out);
  // An error where the member breaks the protocol.
  Result<void> prepared(size_t member, const Prepared& answer, std::vector<Message>& out);
  // Some member has left: nothing is decided any more, and what is added is dropped.
  void giveUp(std::vector<Message>& out);
  bool isOver() const { return isOver_; }
  // What a member is told that had accepted `round`, was not told what came of it, and has left.
  Message outcomeOf(uint64_t round) const;

  // When expire() asks again, kNoDeadline for never.
  Deadline due() const { return due_; }
  void expire(std::vector<Message>& out);

  // Two that are equal go on alike.
  auto operator<=>(const DecisionRounds&) const = default;

 private:
  struct Round {
    uint64_t ordinal = 0;
    std::set<uint64_t> wanted{};
    std::vector<Decision> decisions{};
    std::vector<bool> answered{};  // by member
    size_t nAnswered = 0;
    bool isRefused = false;  // a rank has claimed that call
    bool isBusy = false;     // a rank has a group open
    auto operator<=>(const Round&) const = default;
  };

  bool isToBeDecided(uint64_t topic) const;
  std::vector<Decision> takePending();
  uint64_t nextOrdinal() const;
  void want(uint64_t ordinal);
  void finish(std::vector<Message>& out);
  void finishRefused(Round round, std::vector<Message>& out);

  size_t nMembers_;
  std::vector<Decision> pending_;
  // The calls from which on something pending is wanted: one of each rank, which waits before it.
  std::set<uint64_t> wanted_;
  std::optional<Round> round_;
  uint64_t nRounds_ = 0;  // that have begun
  // Of the last round that is over, if it was one: who has answered a later one knows of it.
  std::optional<Commit> lastCommit_;
  uint64_t highest_ = 0;  // calls that some rank has claimed, as far as known
  uint64_t lead_ = 0;     // the longest that a rank asks for
  uint64_t margin_ = 0;   // times that, doubled with each refusal but the first
  std::chrono::milliseconds rest_ = kShortestRest;
  Deadline due_ = kNoDeadline;
  bool isOver_ = false;
};

}  // namespace cinch
