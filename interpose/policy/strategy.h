// Whether the calls of a slot go faster compressed or passed: both are timed on the device of every
// rank, and what is faster is done. Pure.
//
// A slot's turns (its calls outside of captures) are counted in rounds of 8. A rank's time of a
// turn includes its wait for ranks that come late; the least of all ranks' times is what the links
// and codecs take. The ranks pool these (Agreement::pool) when a round is over, and from the next
// round but one on all do what follows from the same pooled integers by the same integer
// arithmetic: they can never disagree, and nobody waits for anybody unless some rank's host is a
// whole round ahead.
//
//   round 0   the turns that pass while the slot gets ready, then compressed ones: the first trial
//   later     the faster of the two. Both by turns in one round (a trial) where the first trial was
//             close, where the time of what is done has drifted by more than 20 %, and seldom at
//             other times: the slower the other was, the more seldom.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace cinch {

enum class Strategy : uint8_t { pass, compress };

inline constexpr uint64_t kNotTimed = UINT64_MAX;

class StrategyChooser {
 public:
  static constexpr uint64_t kRound = 8;  // turns
  // What round `n` pooled is known from this turn on.
  static constexpr uint64_t heardAt(uint64_t round) { return (round + 2) * kRound; }

  // What the turn does, once all rounds are heard that are to be heard before it. Where the slot is
  // not ready it passes in any case.
  Strategy at(uint64_t turn) const;
  // What the turn did; a turn that was not to be timed says so.
  void note(uint64_t turn, Strategy done, bool isTimed);
  Strategy did(uint64_t turn) const { return turns_[turn % turns_.size()].done; }

  // Whether the ranks pool what they measured in the round: not for a while after a pool that
  // failed.
  bool isPooled(uint64_t round) const { return round >= quietUntil_; }
  // `least` are the ranks' least times of the round's turns in ns, kNotTimed where
  // none was taken; empty where they could not be pooled, or were not to be. Once for each
  // round, in order.
  void hear(uint64_t round, std::span<const uint64_t> least);

  // What was last found of either, in ns; 0: nothing yet.
  uint64_t passTime() const { return times_[0]; }
  uint64_t compressTime() const { return times_[1]; }
  Strategy choice() const { return choice_; }
  uint64_t nTrials() const { return nTrials_; }

 private:
  enum class Mode : uint8_t { pass, compress, trial };
  struct Turn {
    Strategy done;
    bool isTimed;
  };
  static constexpr uint64_t kRoundsKept = 4;

  uint64_t medianOf(uint64_t round, std::span<const uint64_t> least, Strategy strategy) const;
  void conclude(uint64_t pass, uint64_t compress);
  bool isWorthATrial(uint64_t round, uint64_t time);
  uint64_t restBetweenTrials() const;
  Mode steady() const { return choice_ == Strategy::pass ? Mode::pass : Mode::compress; }

  std::array<Mode, kRoundsKept> modes_{Mode::compress, Mode::compress, Mode::compress,
                                       Mode::compress};
  std::array<Turn, kRoundsKept * kRound> turns_{};
  Strategy choice_ = Strategy::compress;
  bool hasChosen_ = false;
  bool isClose_ = false;  // the last trial was, and no other followed
  uint64_t times_[2] = {0, 0};
  uint64_t nTrials_ = 0;
  uint64_t lastTrial_ = 0;   // round
  uint64_t quietUntil_ = 0;  // likewise
  uint32_t nDrifts_ = 0;     // rounds in a row
};

}  // namespace cinch
