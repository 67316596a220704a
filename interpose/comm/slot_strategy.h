// What a slot keeps to find out whether compressing it pays: policy/strategy.h says how.
#pragma once

#include <atomic>

#include "interpose/comm/stopwatch.h"
#include "interpose/policy/strategy.h"

namespace cinch {

struct SlotStrategy {
  explicit SlotStrategy(bool mayBeQuick) : chooser(mayBeQuick) {}

  StrategyChooser chooser;
  Stopwatch stopwatch;
  // Else a lap would be another turn's before its figures are heard.
  static_assert(Stopwatch::kLaps >= (StrategyChooser::kLongestDelay + 1) * StrategyChooser::kRound);
  uint64_t nextTurn = 0;  // the same on all ranks, as the next one
  std::array<uint64_t, kStrategies> nTurns{};
  uint64_t lastCompressed = 0;  // turn
  uint64_t nPooled = 0;         // rounds whose figures are on their way
  uint64_t nHeard = 0;          // rounds
  uint64_t roundBegun = 0;      // by the host's clock, in ns

  std::atomic<uint64_t> nAwaited{0};  // rounds whose times are of no use later

  // The last turn, which did this, did not take place.
  void takeBack(Strategy done) {
    --nextTurn;
    stopwatch.giveUp(nextTurn);
    --nTurns[static_cast<size_t>(done)];
  }
};

}  // namespace cinch
