// What the ranks of one communicator have decided, as its calls see it: each decision from the same
// call on, on all ranks, whatever the groups in which a rank makes them. Where decisions are
// replayed (CINCH_PLAN), each from the call on from which it was in force in the recorded run.
//
// With CINCH_SLOTS=signature, which is for benchmarks and graphs, calls wait for what is to be
// decided before them instead, which may be for other ranks' programs: then the numbers of calls
// alone say what is compressed.
//
// For the thread that makes the communicator's calls.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "interpose/agree/agreement.h"
#include "interpose/comm/comm_plan.h"
#include "interpose/comm/meetings.h"
#include "interpose/policy/signature.h"

namespace cinch {

class CommDecisions {
 public:
  using Bytes = std::vector<uint8_t>;

  // `name` is the communicator's in the log.
  explicit CommDecisions(const std::string& name) : name_(name) {}

  // The ranks have agreed to compress, and decide over `channel`; on the rest as CommPlan::begin().
  Result<void> begin(std::shared_ptr<Agreement> channel, std::string communicator,
                     const PlannedComm& now, bool isRecorder);

  // The next eager collective that could ever be compressed is about to be made: its number. May
  // wait for control threads (Decisions::claim()); an error means that the communicator must fail.
  Result<uint64_t> claim(const Signature& signature);
  // All that were claimed took place.
  void confirm();
  // The last one did not take place. False where something has already been done that is in force
  // only later: the communicator must fail.
  bool takeBack();

  // What has been decided on `topic`, where that is in force at `call`; once. An error only where
  // calls wait: others may know what this rank does not.
  Result<std::optional<Bytes>> take(uint64_t topic, uint64_t call);
  // The same, which stays there: what rests on it alone may be taken back, and comes again.
  Result<const Bytes*> read(uint64_t topic, uint64_t call);
  void forget(uint64_t topic) { inForce_.erase(topic); }
  // The outcome of a vote. Where it is replayed, all ranks have voted yes now, too: that is waited
  // for. An error where it cannot be known.
  Result<std::optional<VoteOutcome>> takeVote(uint64_t topic, uint64_t call);

  const Meetings& meetings() const { return meetings_; }
  // A call of that number was made, and is not compressed yet.
  void noteUnready(uint64_t call) { meetings_.note(call, period_, Clock::now()); }
  // For what makes NCCL wait for other ranks, which all do at `call`: that this rank is there,
  // false where it can no longer tell the others; and then, once, whether all are, which is the
  // same on all ranks: NCCL then makes these `connections`. Who has waited until `patience` goes
  // on, and so do the others. An error where others may know more. Where calls wait anyhow, or
  // decisions are replayed, nobody is waited for here.
  bool arrive(uint64_t topic, uint64_t call);
  Result<bool> haveMet(uint64_t topic, uint64_t call, uint32_t connections, Deadline patience);

  // Whether `topic` is in force at `call`, which the call then follows; it stays so.
  bool follows(uint64_t topic, uint64_t call);

  // Before the next call is claimed: it should be in force from that one on. Waits until it is
  // settled (Decisions::isDecidedBeforeNext()); of a replay nobody decides anything.
  Result<void> wantBeforeNext(uint64_t topic);

  // How many calls a training step has, 0 where that is not known.
  void setPeriod(uint64_t calls);

  // Something is compressed from now on.
  void setActive();
  // What is to be said where something is, and the control threads have found that two ranks do not
  // make the same calls, which is logged in any case; from any thread, once the ranks have agreed.
  std::optional<Error> difference() const;

  // Calls wait for what is to be decided before them, or did where that is replayed.
  bool callsWait() const { return waits_; }
  const CommPlan& plan() const { return plan_; }
  bool isReplayed() const { return plan_.isReplayed(); }

 private:
  struct Effect {
    uint64_t call = 0;  // from which on
    Bytes bytes;
  };

  bool isInForce(uint64_t topic, uint64_t call) const;
  Result<std::optional<Bytes>> awaitNow(uint64_t topic);
  void keep(uint64_t call, uint64_t topic, Bytes bytes);
  void noteEnd();

  std::shared_ptr<Agreement> channel_;
  CommPlan plan_;
  std::map<uint64_t, Effect> inForce_;  // by topic
  std::map<uint64_t, Bytes> live_;      // likewise, of a replay: what is decided now
  std::set<uint64_t> awaited_;          // topics that claim() is still to give
  Meetings meetings_;
  const std::string name_;
  uint64_t period_ = 0;
  uint64_t begun_ = 0;       // the latest call from which on something that was taken is in force
  uint64_t nSinceEnd_ = 0;   // calls, of decisions
  bool waits_ = false;       // calls do
  bool isConfirmed_ = true;  // all calls that were claimed are
};

}  // namespace cinch
