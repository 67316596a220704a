// CINCH_PLAN on one communicator: what its ranks decide is recorded, or comes from a record.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interpose/policy/recorded_plan.h"

namespace cinch {

// CINCH_PLAN and, where it says replay, the file. Read at the first call; an error means that this
// process refuses to take part in compression. Thread-safe.
struct ProcessPlan {
  PlanSetting setting;
  RecordedPlan replayed;
};
const Result<ProcessPlan>& processPlan();

// What all ranks must have in common: "none", or a number that tells plans to be replayed apart.
std::string agreedPlan();

class CommPlan {
 public:
  // The ranks have agreed, on `now`, too. `isRecorder`: of them this one records. An error, the
  // same on all ranks, where the plan that is to be replayed is not this communicator's.
  Result<void> begin(std::string communicator, const PlannedComm& now, bool isRecorder);

  // The ranks measure nothing, and decide what they decided in the run that was recorded.
  bool isReplayed() const { return replayed_ != nullptr; }
  // Whether the slot may be compressed: it was, if this is a replay.
  bool knows(uint64_t slot) const;
  // What came into force with that call of the communicator.
  std::vector<PlannedDecision> decisionsAt(uint64_t call) const;

  // Without effect unless it is recorded; written soon, by another thread.
  void noteSlot(uint64_t slot, const std::string& name) const;
  void note(const PlannedDecision& decision) const;
  // All that was noted is written when it returns, unless that takes seconds. Not on the call path.
  void finish() const;

 private:
  PlannedSlotKey keyOf(uint64_t slot) const { return {communicator_, slot}; }

  std::string communicator_;
  bool isRecorded_ = false;
  const RecordedPlan* replayed_ = nullptr;
};

}  // namespace cinch
