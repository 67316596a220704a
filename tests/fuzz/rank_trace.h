// What one rank's actions mean for the other ranks: launches, meetings, waits. For legality.cc.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "tests/fuzz/program.h"

namespace cinch::fuzz {

// What one group, or one call, gives to one communicator.
struct Batch {
  int comm;
  std::deque<Call> collectives;
  std::deque<Call> messages;
  bool isDone() const { return collectives.empty() && messages.empty(); }
};

struct Event {
  enum class Kind { launch, meet, drain, abandon, fork, join };
  Kind kind;
  std::vector<Batch> batches = {};  // launch
  std::string meeting = {};         // meet: equal on all ranks that meet
  int comm = -1;                    // meet: whose members; abandon: whose batches
  std::vector<Event> branch = {};   // fork: what the second thread does
};

struct RankTrace {
  std::vector<Event> events;
  std::vector<std::string> violations;  // of rules that concern this rank alone
};

// Empty collectives are left out, as NCCL drops them; empty messages where `dropEmptyMessages`.
RankTrace traceOf(const Program& program, int worldRank, bool dropEmptyMessages);

}  // namespace cinch::fuzz
