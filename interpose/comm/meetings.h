// When the ranks try to be at the same call together, for NCCL to connect them there: NCCL makes
// each wait for the others, and must not be made to while one program is ahead of another.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <set>

#include "common/network/socket.h"

namespace cinch {

// Of one communicator. Which calls, follows from the numbers of the calls before at which some rank
// did not come in time: on all ranks the same. How long a rank waits is its own affair.
class Meetings {
 public:
  bool mayBeAt(uint64_t call) const { return call >= next_; }

  // Where the ranks have not met they try again at a call whose number is a power of two, or after
  // that: a program whose ranks are never together waits a few dozen times in its life.
  void missed(uint64_t call) { next_ = std::bit_ceil(call + 1); }

  // NCCL has been let to make these connections: who needs no others meets nobody.
  void met(uint32_t connections) { made_.insert(connections); }
  bool areMade(uint32_t connections) const { return made_.contains(connections); }

  // A call is made that is not compressed yet, in a program that makes `period` in a step, 0 where
  // that is not known. Not measured any more once a rank has waited in vain: that made its step
  // longer, and those of the others.
  void note(uint64_t call, uint64_t period, Clock::time_point now) {
    if (next_ != 0) return;
    if (isStepOpen_ && call - stepBegin_ < period) return;
    if (isStepOpen_) longestStep_ = std::max(longestStep_, now - stepBegan_);
    isStepOpen_ = true;
    stepBegin_ = call;
    stepBegan_ = now;
  }

  // The programs of a job are hardly a step apart.
  Clock::duration patience() const {
    return std::clamp<Clock::duration>(2 * longestStep_, kLeast, kMost);
  }

  // As much as a busy machine may hold up a program; and of a first step, which compiles.
  static constexpr std::chrono::seconds kLeast{1}, kMost{60};

 private:
  uint64_t next_ = 0;
  std::set<uint32_t> made_;
  bool isStepOpen_ = false;
  uint64_t stepBegin_ = 0;  // call
  Clock::time_point stepBegan_{};
  Clock::duration longestStep_{};
};

}  // namespace cinch
