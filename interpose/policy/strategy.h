// What makes the calls of a slot fastest: the ways there are to make them are timed on the device
// of every rank, and the fastest is kept to. Pure.
//
// A slot's turns (its calls outside of captures) are counted in rounds of 8. A rank's time of a
// turn includes its wait for ranks that come late; the least of all ranks' times is what the links
// and codecs take. The ranks pool these (Agreement::pool) when a round is over. From the next round
// but one on all do what follows from the same pooled integers by the same integer arithmetic: they
// can never disagree. Nobody waits for anybody: what the ranks have not pooled by then comes too
// late, on all of them (agree/decisions.h), and more time is left for the next ones.
//
//   round 0   a trial: the turns that pass while the slot gets ready, then the other strategies;
//             where calls are short, or plain ones not far slower, it does not count: another one
//             follows
//   later     the fastest strategy; a trial again, up to two times, where the last one was close,
//             and up to seven where it was very close;
//             where what was chosen takes more than twice of what it took when it was tried (found
//             again, that counts more than what trials say);
//             and where the time of what is done has drifted by more than 20 %; and seldom at other
//             times: the slower the others were, the more seldom.
//
// Of short calls each strategy is tried for a round, behind one in which it settles where rounds
// follow each other fast. Where the calls are most of what the program does, its pace counts: what
// a round takes it, by call. The least of the ranks' times is too little there, as what one rank is
// late in one call it has less of in the next. Trials that follow one another leave out plain
// calls where these are far slower. In a trial a strategy's turns follow one another, and the first
// one does not count: links let a large message through at once that comes after small ones, or
// after a pause. Plain turns do not begin a round, as only the first trial's must: pools fall
// there, which short calls take longer beside.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace cinch {

// quick: at 4 bits, without rotation and error feedback, which takes little work.
enum class Strategy : uint8_t { pass, compress, quick };
inline constexpr size_t kStrategies = 3;

inline constexpr uint64_t kNotTimed = UINT64_MAX;

class StrategyChooser {
 public:
  static constexpr uint64_t kRound = 8;  // turns
  // Of a round: the time of each turn, and how long the round took the program.
  static constexpr uint64_t kFigures = kRound + 1;
  // Turns of so many rounds may be taken back.
  static constexpr uint64_t kRoundsKept = 64;
  // Rounds after which the figures of one are heard at the latest.
  static constexpr uint64_t kLongestDelay = 16;

  explicit StrategyChooser(bool mayBeQuick = false) : mayBeQuick_(mayBeQuick) {}

  // What the turn does, once all rounds are heard that are to be heard before it: round n before
  // turn (n + delay()) * kRound. Where the slot is not ready it passes in any case.
  Strategy at(uint64_t turn) const;
  // Whether its time is of use; where one strategy has been settled on, few are enough.
  bool isTimed(uint64_t turn) const;
  // What the turn did; `isTypical` where its time says how long such turns take.
  void note(uint64_t turn, Strategy done, bool isTypical);

  // Quick calls are not good enough any more: from here on those that were to be quick do the
  // faster of the others. In the same turn on all ranks.
  void dropQuick();

  uint64_t delay() const { return delay_; }

  // Whether the ranks pool what they measured in the round: not for a while after a pool that
  // failed, and but now and then of rounds that follow each other fast: a pool costs as much as
  // some short calls.
  bool isPooled(uint64_t round) const { return round >= quietUntil_ && modeOf(round).isPooled; }
  // `least` are the least of all ranks' figures in ns, kNotTimed where none was taken; empty where
  // they were not pooled in time, or were not to be. Once for each round, in order.
  void hear(uint64_t round, std::span<const uint64_t> least);

  // What was last found, in ns; 0: nothing yet.
  uint64_t time(Strategy strategy) const { return times_[static_cast<size_t>(strategy)]; }
  Strategy choice() const { return choice_; }
  uint64_t nTrials() const { return nTrials_; }

 private:
  static constexpr uint64_t kShortestDelay = 2;
  using Times = std::array<uint64_t, kStrategies>;                 // ns
  using Samples = std::array<std::vector<uint64_t>, kStrategies>;  // likewise
  struct Found {
    Samples calls, paces;
    void add(const Found& more);
  };
  // What is done, in a round.
  struct Done {
    uint64_t time;      // ns; 0: not known
    bool isComparable;  // with what trials have found
  };
  struct Mode {
    bool isTrial = false;
    bool triesPlain = true;  // else the others alone, if there are two
    bool isPooled = true;
    // Unless it is; or all of the round's, of a trial of whole rounds.
    Strategy strategy = Strategy::compress;
    bool isWhole = false;  // a part of such a trial
  };
  struct Part {
    Strategy strategy;
    bool isLead;  // into the next one; it does not count
  };
  // A trial of whole rounds, one for each strategy, and their leads.
  struct Parts {
    std::vector<Part> all;
    size_t nPlaced = 0, nHeard = 0;  // nHeard: that count
    Found found;
  };
  struct Turn {
    Strategy done;
    bool isTypical;
  };
  const Mode& modeOf(uint64_t round) const { return modes_[round % kRoundsKept]; }
  Strategy tried(uint64_t turn) const;
  bool followsItsLike(uint64_t turn) const;
  Found foundIn(uint64_t round, std::span<const uint64_t> least) const;
  bool isAllAlike(uint64_t round) const;
  bool isTight() const;
  Done doneIn(const Found& found) const;
  uint64_t timeInSeries(Strategy strategy) const;
  bool conclude(const Found& found, bool isWhole);
  bool isUnsure() const;
  bool isClearlyFaster(Strategy other, uint64_t time) const;
  void choose();
  bool isWithin(uint64_t percent) const;
  bool isWorthATrial(uint64_t round, const Done& done);
  uint64_t lateness() const { return delay_ - kShortestDelay; }
  bool isDoubtful(uint64_t since, uint64_t time) const;
  bool isOvertaken(uint64_t since, uint64_t time);
  void noteDoubt(uint64_t time);
  bool hasDrifted(bool isSo);
  uint64_t restBetweenTrials() const;
  bool wasTooEarly(uint64_t round, std::span<const uint64_t> least, const Found& found) const;
  void noteFailure(uint64_t round);
  uint64_t roundsToAPool() const;
  uint64_t roundTime() const;
  bool saysLittle() const;
  bool isATrials(uint64_t round, const Found& found) const;
  bool completesATrial(uint64_t round, const Found& found);
  bool isFast() const;
  uint64_t watchedRounds() const;
  bool isShort(uint64_t time) const;
  bool isCloseToPlain() const;
  void beginParts();
  bool isWorthAPart(Strategy strategy) const;
  bool arePlaced() const { return parts_.nPlaced == parts_.all.size(); }
  void setMode(uint64_t round, bool isTrial);
  bool isWatched(uint64_t round) const;
  bool mayPass() const;

  bool mayBeQuick_;
  std::array<Mode, kRoundsKept> modes_ = {Mode{.isTrial = true}};
  std::array<Turn, kRoundsKept * kRound> turns_{};
  Strategy choice_ = Strategy::compress;
  bool hasChosen_ = false;
  bool isSettled_ = false;  // a series has ended since the link changed much
  Times times_{};           // of the last series of trials
  Found series_;            // of it
  Strategy beforeSeries_ = Strategy::pass;
  uint64_t period_ = 0;  // of a round, as far as known; ns
  uint64_t level_ = 0;   // of what is done since, in a usual round; 0: not known yet
  // Of strategies that took much longer than in their trials: how often, and how long, which is the
  // least that trials may say until what is done drifts.
  std::array<uint32_t, kStrategies> nDoubts_{};
  Times floors_{};
  std::vector<uint64_t> watched_;  // times of what is done, in rounds after the last trial
  Parts parts_;                    // of the trial that is under way
  uint32_t nInSeries_ = 0;         // trials; 0: the last series is over
  uint64_t nSeries_ = 0;           // that are over
  bool isPutOff_ = false;          // the next one, by a round
  uint64_t nTrials_ = 0;
  uint64_t lastTrial_ = 0;           // round
  uint64_t quietUntil_ = 0;          // likewise
  uint64_t rest_ = 1;                // rounds without pools after one that failed
  uint64_t delay_ = kShortestDelay;  // rounds
  uint32_t nDrifts_ = 0;             // rounds in a row
  int nLarge_ = 0;                   // the same of large ones, less than 0 where calls got faster
  uint32_t nInVain_ = 0;             // series in a row, between rests, that changed nothing
  uint32_t nAlike_ = 0;              // the same, whether or not there were rests
};

}  // namespace cinch
