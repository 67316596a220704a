// How the training steps of one communicator are sent, or the calls of one slot that has no place
// in a step, each of which is then a period: a Selector, and the timings of its blocks.
//
// For the thread that makes the communicator's calls, but for BlockTimings.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/stats.h"
#include "interpose/comm/step_timer.h"
#include "interpose/policy/selector/selector.h"
#include "interpose/policy/sequence.h"

namespace cinch {

class CommDecisions;

// A block that has ended, whose timings are to be min-reduced.
struct BlockTimings {
  uint64_t topic;
  uint64_t block;
  uint64_t firstMark;
  uint32_t nSamples;
  uint32_t nPeriods;  // of each sample
  uint32_t atypical;  // samples, as bits, that are not to count
};

// Where a period begins.
struct PeriodStart {
  uint64_t call;               // its number
  void* stream;                // on which it is about to be enqueued
  uint64_t group;              // the thread's outermost NCCL group, by number; 0: none
  bool mayBeStateless = true;  // its calls, where each is a period
};

// Whether all ranks have memory for the residuals of what has been called in the last periods: an
// evaluation, or a step in another order, leaves out some calls of a period or two.
inline constexpr size_t kAskedPeriods = 4;
struct ResidualQuestion {
  uint64_t number;
  uint64_t topic;   // of the answers
  uint64_t since;   // call, with which those periods begin
  bool isAnswered;  // by this rank, before its call was taken back
};

class StepSelection {
 public:
  // `identity` tells its topics from others' of the communicator; the same on all ranks.
  explicit StepSelection(uint64_t identity) : identity_(identity) {}

  // Makes the events of its timer, and shows what it finds in the report and, as `name`, in the
  // log. Once.
  Result<void> open(const DeviceTable& device, const std::string& name, SendingFigures& figures);
  bool isOpen() const { return figures_ != nullptr; }

  // Where periods are those of the communicator's sequence: whether a call with that place starts
  // one. What was found ends where periods have other calls (StepTracker::Observed).
  bool startsPeriod(const Place& place, uint64_t periodCalls);
  // A call of the period under way, of so many bytes, is ready to be compressed, or is not yet.
  struct Readiness {
    bool isReady = false;
    uint64_t bytes = 0;
    bool mayBeStateless = false;
    bool lacksResiduals = false;
  };
  void noteReadiness(const Readiness& call);
  // Whether the calls of the last period were ready.
  bool wasReady() const { return now_.step.wasReady; }

  bool hasBegun() const { return now_.selector.has_value(); }
  void begin(Selector::Options options);
  // The next period begins. Receives what is in force from it on. Gives a block that has ended with
  // it, each once, though its calls may be taken back.
  Result<std::optional<BlockTimings>> beginPeriod(CommDecisions& decisions,
                                                  const PeriodStart& start);
  // Of the period under way; plain before begin().
  const StepMode& mode() const { return now_.mode; }

  // What is to be answered; once for each.
  std::optional<ResidualQuestion> nextQuestion();
  Selector::Residuals residuals() const { return now_.residuals(); }
  // They may have, or are about to; false: no call that was made can use them any more.
  bool mayHoldResiduals() const {
    const auto mayHold = [](const Selector::Residuals& residuals) {
      return residuals.areHeld || residuals.isAsked;
    };
    return mayHold(now_.residuals()) || mayHold(made_.residuals());
  }

  // All calls since the last commit() or takeBack() were made, or were not.
  void commit(CommDecisions& decisions);
  void takeBack();

  // From any thread: whether a block's timings are wanted at once, and those that are known.
  bool isLate(const BlockTimings& block) const { return late_.load() > block.block; }
  bool isPending(const BlockTimings& block) const;
  std::vector<uint64_t> timingsOf(const BlockTimings& block) const;

 private:
  // The period of the sequence that is under way.
  struct Step {
    std::optional<Place> last{};  // of its calls
    uint64_t periodCalls = 0;
    uint32_t nBroken = 0;                       // periods, this one on, that a surprise has cut
    bool hasReady = false, hasUnready = false;  // calls
    uint64_t bytes = 0, statelessBytes = 0;     // of those that are ready, and may be stateless
    bool lacksResiduals = false;                // some call does
    Selector::Shape shape{};                    // of the last period
    uint32_t nPartlyReady = 0;                  // periods in a row that had both
    bool wasReady = false;                      // the last one
  };
  struct State {
    std::optional<Selector> selector{};
    StepMode mode{};
    Step step{};
    uint64_t nAsked = 0;  // questions below it were asked
    uint64_t nPeriods = 0;
    std::array<uint64_t, kAskedPeriods> lastCalls{};  // with which periods began, oldest first
    uint64_t nBlocks = 0;                             // numbers that are used up
    uint64_t nMarks = 0;
    uint64_t firstMark = 0;    // of the block,
    uint32_t nPerSample = 1;   // periods,
    uint32_t sample = 0;       // which is under way,
    uint32_t atypical = 0;     // samples, as bits
    bool isAtypical = false;   // the period
    uint64_t markedGroup = 0;  // in which the last mark was made
    Selector::Residuals residuals() const {
      return selector ? selector->residuals() : Selector::Residuals();
    }
  };
  void endPeriod();
  void mark(const Selector::Period& period, const PeriodStart& start);
  uint64_t topicOfBlock(uint64_t block) const;
  uint64_t topicOfQuestion(uint64_t question) const;
  Result<void> receiveAnswer(CommDecisions& decisions, uint64_t call);
  Result<void> receive(CommDecisions& decisions, uint64_t call);
  void report(const StepMode& before) const;

  const uint64_t identity_;
  std::string name_;
  SendingFigures* figures_ = nullptr;
  StepTimer timer_;
  State now_, made_;
  bool isChanged_ = false;          // since the last commit
  std::vector<uint64_t> received_;  // topics, likewise
  uint64_t nGiven_ = 0;             // blocks below it were given
  uint64_t nAnswered_ = 0;          // questions below it were answered
  std::atomic<uint64_t> late_{0};   // blocks below it are
};

// Those of one communicator.
class StepSelections {
 public:
  // False: what may be compressed is, whatever that costs (CINCH_WHEN=always).
  bool isOn = false;
  uint64_t seed = 0;                  // of what is drawn, the same on all ranks
  SendingFigures* figures = nullptr;  // of training steps, in the report
  // Of its training steps.
  StepSelection ofSteps{0};
  // Of a slot's calls that have no place in a step.
  StepSelection& ofCalls(uint64_t slotIdentity);
  // Something is about to happen to `selection`, which lives as long as this.
  void touch(StepSelection& selection);
  // As those of StepSelection, of all that were touched.
  void commit(CommDecisions& decisions);
  void takeBack();

 private:
  std::unordered_map<uint64_t, std::unique_ptr<StepSelection>> ofCalls_;
  std::vector<StepSelection*> touched_;
};

}  // namespace cinch
