// Votes of the ranks of one communicator, by topic, until each has come to something. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "common/result.h"
#include "interpose/agree/agreement_wire.h"
#include "interpose/agree/attendance.h"

namespace cinch {

inline constexpr size_t kMaxOpenTopics = 4096;

class OpenVotes {
 public:
  // Appends what is to be decided: whether all have said yes, and rank 0's bytes. An error where
  // the member breaks the protocol.
  Result<void> add(size_t member, bool isRankZero, const Vote& vote, Attendance now,
                   std::vector<Decision>& out);
  // The member waits no longer for the others. True where these have not all voted: it is a no, and
  // all are to be told.
  Result<bool> retract(size_t member, const Retraction& retraction);
  // Nothing will come of them.
  void clear() { topics_.clear(); }

 private:
  struct Topic {
    std::vector<bool> voted;  // by member
    size_t votes = 0;
    bool allYes = true;
    Bytes bytes{};          // rank 0's
    bool isMissed = false;  // a rank has taken its vote back; some are still to vote
  };

  std::map<uint64_t, Topic> topics_;
};

}  // namespace cinch
