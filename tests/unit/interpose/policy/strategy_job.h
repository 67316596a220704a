#pragma once

// A slot whose calls take what a test says, as it is driven by the interposer.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "interpose/policy/strategy.h"

namespace cinch {

inline constexpr uint64_t kRound = StrategyChooser::kRound;
inline constexpr uint64_t kMicrosecond = 1000, kMillisecond = 1000 * kMicrosecond;

// A slot of which all ranks time every turn, as the interposer drives the chooser: a round is heard
// when the next one is over.
class Job {
 public:
  using Time = std::function<uint64_t(uint64_t turn, Strategy done)>;
  explicit Job(Time time, bool mayBeQuick = false) : chooser(mayBeQuick), time_(std::move(time)) {}

  Strategy step() {
    if (turn_ % kRound == 0)
      for (; nHeard_ + chooser.delay() <= turn_ / kRound; ++nHeard_) hear(nHeard_);
    const bool isReady = turn_ >= 2;  // the calls before get the ranks ready
    const Strategy done = isReady ? chooser.at(turn_) : Strategy::pass;
    chooser.note(turn_, done, true);
    const uint64_t time = time_(turn_, done);
    spent += time;
    if (turn_ % kRound == 0) periods_.push_back(0);
    periods_.back() += time + pause;
    least_.push_back(chooser.isTimed(turn_) ? seen(done, time) : kNotTimed);
    ++turn_;
    return done;
  }
  // Of the next `n` turns.
  uint64_t passes(uint64_t n) {
    uint64_t nPasses = 0;
    for (uint64_t i = 0; i < n; ++i) nPasses += step() == Strategy::pass;
    return nPasses;
  }
  uint64_t turn() const { return turn_; }

  StrategyChooser chooser;
  uint64_t spent = 0;
  uint64_t pause = 0;  // between two calls
  // The least of what the ranks see of such a call.
  std::function<uint64_t(Strategy done, uint64_t time)> seen = [](Strategy, uint64_t time) {
    return time;
  };
  // What the round took the program.
  std::function<uint64_t(uint64_t round, uint64_t period)> periodOf =
      [](uint64_t, uint64_t period) { return period; };
  uint64_t ahead = 0;  // calls that the program enqueues before the device has done one
  bool failsToPool = false;
  uint64_t nPools = 0;

 private:
  void hear(uint64_t round) {
    if (!chooser.isPooled(round)) return chooser.hear(round, {});
    ++nPools;
    if (failsToPool) return chooser.hear(round, {});
    const auto first = least_.begin() + static_cast<ptrdiff_t>(round * kRound);
    std::vector<uint64_t> figures(first, first + kRound);
    for (uint64_t i = 0; i < kRound; ++i)
      if (round * kRound + i + ahead >= turn_) figures[i] = kNotTimed;
    figures.push_back(periodOf(round, periods_[round]));
    chooser.hear(round, figures);
  }

  Time time_;
  uint64_t turn_ = 0, nHeard_ = 0;
  std::vector<uint64_t> least_, periods_;
};

inline Job steadyJob(uint64_t pass, uint64_t compress) {
  return Job([=](uint64_t, Strategy done) { return done == Strategy::pass ? pass : compress; });
}

}  // namespace cinch
