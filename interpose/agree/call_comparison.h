// The server's side of CallTrail: whether the ranks of a communicator have made the same calls.
// Pure.
//
//   alike   what has come so far is the same wherever it is of the same call
//   found   two ranks differ; which call is the first may be narrowed down by what the ranks send
//           when they stand still
//   told    they have been told, once
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/network/socket.h"
#include "interpose/agree/agreement_wire.h"

namespace cinch {

class CallComparison {
 public:
  void add(size_t rank, const Trail& trail);

  // When there is something to tell, and what; kNoDeadline for never, and none but once.
  Deadline due() const { return due_; }
  std::optional<Difference> takeDue(Clock::time_point now);

 private:
  struct Seen {
    uint64_t hash = 0;
    uint32_t rank = 0;  // who sent it first
  };
  void compare(uint32_t rank, uint64_t nCalls, uint64_t hash);

  std::map<uint64_t, Seen> seen_;  // by the number of calls that a hash is of
  std::vector<uint64_t> alike_;    // by rank, up to which call it was found to be like another
  std::optional<Difference> found_;
  Deadline due_ = kNoDeadline;
  bool isTold_ = false;
};

}  // namespace cinch
