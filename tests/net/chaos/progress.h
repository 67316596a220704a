// How far a process is, in memory that the test sees too: what is left of it where it hangs.
#pragma once

#include <atomic>
#include <string>

#include "tests/net/chaos/plan.h"

namespace cinch::chaos {

enum class Stage : int { waiting, accepting, connecting, moving, over };

struct LaneProgress {
  std::atomic<Stage> stage{Stage::waiting};
  std::atomic<int> life{0};
  std::atomic<int> nPosted{0};
  std::atomic<int> nDone{0};
};

struct Progress {
  std::atomic<int> nDone{0};  // messages of this round
  LaneProgress lanes[kMaxLanes];

  void reset();
  std::string text() const;
};

// Shared with all processes that are forked from here on; never given back.
Progress* makeProgress();

}  // namespace cinch::chaos
