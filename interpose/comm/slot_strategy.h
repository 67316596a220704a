// What a slot keeps to find out whether compressing it pays: policy/strategy.h says how.
#pragma once

#include "interpose/comm/stopwatch.h"
#include "interpose/policy/strategy.h"

namespace cinch {

struct SlotStrategy {
  StrategyChooser chooser;
  Stopwatch stopwatch;
  uint64_t nextTurn = 0;     // the same on all ranks, as the next one
  uint64_t nCompressed = 0;  // turns
  uint64_t lastCompressed = 0;
  uint64_t nPooled = 0;  // rounds whose figures are on their way
  uint64_t nHeard = 0;   // rounds

  // The last turn did not take place.
  void takeBack() {
    --nextTurn;
    stopwatch.giveUp(nextTurn);
    nCompressed -= chooser.did(nextTurn) == Strategy::compress;
  }
};

}  // namespace cinch
