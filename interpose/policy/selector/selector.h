// How a communicator's training steps are sent: plain, or compressed, and how. What a user pays for
// is the step, so that is what is timed: from the first call of one period to the first call of the
// next, on the device. Pure.
//
// Periods are counted in blocks of four samples; a sample is one period, or as many as take 25 ms.
// All periods of a block are sent alike. The ranks min-reduce the timings of each block over the
// control channel (a rank that waits for others takes longer, and the last to come does not wait),
// and all then follow from the same integers, applied at the same call, by the same integer
// arithmetic. So they never part: until the timings of a block are there the incumbent is sent,
// which is plain at first.
//
//   scaling      the first block says how long a period is, sent as the incumbent
//   levelling    a block of samples of the right length, where the first one's were too short
//   asking       whether all ranks have memory for the residuals of the challenger
//   probing      two short samples of a challenger: is it so slow that four would hurt?
//   comparing    rounds of four blocks, incumbent and challenger in balanced order (A B B A or
//                B A A B), until the challenger has won: the mean log ratio of single samples is
//                beyond 3 standard errors and 2 %; or has lost: it is slower by one. At most 20
//                rounds, then one in each examination; a tie is the incumbent's, and plain's
//   resting      until the next examination, or until the incumbent's time drifts
//
// An examination compares the incumbent with each of the others: plain, stateless, full; and once,
// where compression has won, with compressing large buckets alone.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "interpose/policy/selector/log_moments.h"

namespace cinch {

// How the calls of a period are sent. stateless: without residuals, in little work for the codec.
// full: with error feedback and adaptive precision.
enum class Sending : uint8_t { plain, stateless, full };
inline constexpr size_t kSendings = 3;

struct StepMode {
  Sending sending = Sending::plain;
  uint64_t minBytes = 0;  // of the calls that are compressed; the others are sent plain
  bool operator==(const StepMode&) const = default;
};

// Of a timing that was not taken.
inline constexpr uint64_t kNotTimed = UINT64_MAX;

inline constexpr uint32_t kBlockSamples = 4;
// Blocks whose timings are awaited: those of a round, and as many of the incumbent alone.
inline constexpr size_t kMaxAwaited = 2 * kBlockSamples;
inline constexpr uint64_t kNoBlock = UINT64_MAX;

class Selector {
 public:
  struct Options {
    uint64_t seed = 0;          // the same on all ranks; orders the blocks of a round
    uint64_t firstBlock = 0;    // its number
    bool hasStateless = false;  // and not only full
    bool hasResiduals = false;  // full has: memory that is asked for when it is first tried
    // Larger ones come last; 0: none.
    std::array<uint64_t, 2> thresholds{};
  };
  explicit Selector(const Options& options);

  // The samples of one block, which were all made.
  struct Ended {
    uint64_t block;
    uint32_t nSamples;
  };
  struct Period {
    StepMode mode;
    uint64_t block;
    std::optional<uint32_t> sample{};   // that begins with it, which ends the one before
    uint32_t nPeriods = 1;              // of each sample of the block,
    uint32_t nSamples = kBlockSamples;  // of which it has so many,
    bool isTimed = false;               // which are to be timed
    std::optional<Ended> ended{};       // with it; its timings are to be min-reduced
  };
  // What the last period was like.
  struct Shape {
    bool mayBeStateless = true;   // most of it; else stateless is plain, without residuals
    bool lacksResiduals = false;  // some of its calls, which were not there at the last question
  };
  // The next period begins.
  Period next(const Shape& shape = {true, false});
  // The block that it will be in.
  uint64_t upcoming() const {
    return current_.block.number + (current_.isCut || current_.isOver() ? 1 : 0);
  }

  // The timings of a block, by sample: ns for each of its periods, the least of all ranks. Fewer
  // where the ranks could not reduce them. Of blocks that ended, in any order.
  void receive(uint64_t block, std::span<const uint64_t> least);
  struct Residuals {
    // The number of the last question whether all ranks have memory for some.
    uint64_t question = 0;
    // It is open, since they are needed for what is to be tried: until it is answered the incumbent
    // is sent.
    bool isAsked = false;
    // What is sent may use those that the questions of these numbers were about: from a yes to the
    // end of an examination that full has not won.
    bool areHeld = false;
    uint64_t first = 0, last = 0;
    bool hold(uint64_t number) const { return areHeld && first <= number && number <= last; }
  };
  Residuals residuals() const;
  void answer(bool haveAll);
  // The numbers of the blocks that are awaited, oldest first, and then kNoBlock.
  std::array<uint64_t, kMaxAwaited> awaited() const;

  struct Summary {
    StepMode mode;                                // of the incumbent
    std::array<uint64_t, kSendings> times{};      // ns of a period when last timed; 0: never
    std::array<uint32_t, kSendings> percentSd{};  // their standard deviations
    uint64_t nExaminations = 0;
    uint64_t nChanges = 0;
  };
  Summary summary() const;

 private:
  enum class Phase : uint8_t { scaling, levelling, asking, probing, comparing, resting };
  enum class Role : uint8_t { incumbent, challenger, probe };
  struct Block {
    uint64_t number = 0;
    StepMode mode{};
    Role role = Role::incumbent;
    uint32_t comparison = 0;  // that it belongs to
    uint32_t position = 0;    // in a round
    uint32_t nSamples = kBlockSamples;
    uint32_t nPeriods = 1;  // of each sample
    bool isTimed = false;
  };
  struct Current {
    Block block{};
    uint32_t sample = 0;
    uint32_t nLeft = 0;  // periods of the sample
    bool isCut = true;   // it ends here, without timings
    bool isOver() const { return nLeft == 0 && sample + 1 == block.nSamples; }
  };
  using Logs = std::array<int64_t, kBlockSamples>;  // by sample
  // The incumbent's timings since it is one, or since they drifted.
  struct Level {
    LogMoments logs{};
    int off = 0;        // the last block was off by much: -1 where it took less
    Logs held{};        // which is then not among them yet
    int64_t scale = 0;  // of the last block
  };
  // Of two modes, log ratios of the later one's samples over the earlier one's.
  struct Evidence {
    LogMoments ratios{};
    uint32_t nRounds = 0;
  };
  struct Examination {
    uint32_t candidate = 0;
    uint32_t comparison = 0;  // number of the last one
    StepMode challenger{};
    uint32_t nPlaced = 0, nReceived = 0;  // blocks of the round, or of the probe
    uint32_t nRoundsLeft = 0;
    std::array<Logs, kBlockSamples> round{};  // by block
    std::array<bool, kBlockSamples> isOfChallenger{};
    bool hasChanged = false;      // the incumbent
    bool isStatelessFar = false;  // slower than plain
    Shape shape{};
    Residuals residuals{};
  };
  struct Rest {
    uint64_t until = 0;  // block
    uint32_t exponent = 0;
    bool hasThresholds = false;  // they have been tried
  };

  Block blockToBegin();
  bool isToBePlaced() const;
  std::optional<Block> close(uint64_t number);
  void receiveIncumbent(const Logs& logs);
  void addToLevel(const Logs& logs);
  bool hasDrifted(const Logs& logs);
  void forgetAll();
  void leaveSlow();
  void receiveCompared(const Block& block, const Logs& logs);
  void judgeRound();
  void examine();
  void tryNext();
  void challenge();
  bool isWorthTrying(uint32_t candidate) const;
  Evidence& evidence();
  void change();
  void enter(Phase phase);

  Options options_;
  Phase phase_ = Phase::scaling;
  StepMode incumbent_{};
  Current current_{};
  std::array<Block, kMaxAwaited> open_{};
  size_t nOpen_ = 0;
  Level level_{};
  std::array<Evidence, kSendings + 1> evidence_{};
  Examination examination_{};
  Rest rest_{};
  std::array<LogMoments, kSendings> recent_{};
  Summary summary_{};
};

}  // namespace cinch
