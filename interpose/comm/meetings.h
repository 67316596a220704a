// When the ranks try to be at the same call together, for NCCL to connect them there: NCCL makes
// each wait for the others, and must not be made to while one program is ahead of another.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <optional>

#include "common/network/socket.h"

namespace cinch {

// Of one communicator. Which calls, follows from the numbers of the calls before at which some rank
// did not come in time: on all ranks the same. How long a rank waits is its own affair.
class Meetings {
 public:
  bool mayBeAt(uint64_t call) const { return call >= next_; }

  // Where the ranks have not met they try again when they have made twice as many calls, at a power
  // of two: a program whose ranks are never together waits a few dozen times in its life. At the
  // first ones a rank may still have to load what the others have loaded.
  void missed(uint64_t call) { next_ = std::max(kFirstRepeat, std::bit_ceil(call + 1)); }

  // A call of `slot`, which gets ready. The first slot of all shows how long a step is. Not any
  // more once a rank has waited in vain: that made its step longer, and those of the others.
  void note(uint64_t slot, Clock::time_point now) {
    if (next_ != 0) return;
    if (!measured_) measured_ = slot;
    if (measured_ != slot) return;
    if (last_ != Clock::time_point()) longestStep_ = std::max(longestStep_, now - last_);
    last_ = now;
  }

  // The programs of a job are hardly a step apart.
  Clock::duration patience() const {
    return std::clamp<Clock::duration>(2 * longestStep_, kLeast, kMost);
  }

 private:
  static constexpr uint64_t kFirstRepeat = 64;
  // As much as a busy machine may hold up a program; and of a first step, which compiles.
  static constexpr std::chrono::seconds kLeast{1}, kMost{60};

  uint64_t next_ = 0;
  std::optional<uint64_t> measured_;  // the slot
  Clock::time_point last_{};
  Clock::duration longestStep_{};
};

}  // namespace cinch
