#include "interpose/execute/turn.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "common/log.h"
#include "interpose/comm/background.h"
#include "interpose/comm/topic.h"

namespace cinch {
namespace {

using Clock = std::chrono::steady_clock;
constexpr uint64_t kRound = StrategyChooser::kRound;
using RoundFigures = std::array<uint64_t, StrategyChooser::kFigures>;

static_assert(kNotTimed == kNoFigure);
static_assert(kStrategies == std::size(kStrategyTexts));

// How long after a round its last call may still be on its way.
constexpr std::chrono::seconds kTurnPatience{30};

uint64_t poolTopic(const Slot& slot, uint64_t round) {
  return topicOf(Subject::times, {slot.identity, round});
}

// One round of one slot, which this rank has timed.
class RoundToPool {
 public:
  RoundToPool(std::shared_ptr<CommState> comm, Slot& slot, uint64_t round, uint64_t period)
      : comm_(std::move(comm)), slot_(&slot), round_(round), period_(period) {}

  // False where some time is not known yet, and may still be waited for.
  bool tryToEnd() const {
    useDevice(*comm_->resources.device, comm_->resources.cudaDevice);
    if (isRunning() && !isLate() && !comm_->hasFailed() && Clock::now() < deadline_) return false;
    pool(figures());
    return true;
  }

  // Where the channel has ended, nothing comes of it.
  void pool(const RoundFigures& figures) const {
    (void)comm_->agreement().pool(poolTopic(*slot_, round_), figures);
  }

 private:
  bool isLate() const { return slot_->strategy->nAwaited.load() > round_; }
  bool isRunning() const {
    const RelaxedCapture relaxed(*comm_->resources.device);
    for (uint64_t i = 0; i < kRound; ++i)
      if (slot_->strategy->stopwatch.isRunning(round_ * kRound + i)) return true;
    return false;
  }
  RoundFigures figures() const {
    RoundFigures figures;
    for (uint64_t i = 0; i < kRound; ++i)
      figures[i] = slot_->strategy->stopwatch.time(round_ * kRound + i).value_or(kNotTimed);
    figures[kRound] = period_;
    return figures;
  }

  std::shared_ptr<CommState> comm_;
  Slot* slot_;
  uint64_t round_, period_;
  Clock::time_point deadline_ = Clock::now() + kTurnPatience;
};

void poolInBackground(const std::shared_ptr<CommState>& comm, Slot& slot, uint64_t round,
                      uint64_t period) {
  const RoundToPool task(comm, slot, round, period);
  if (runInBackground([task] { return task.tryToEnd(); })) return;
  RoundFigures none;
  none.fill(kNotTimed);
  task.pool(none);
}

void report(const CommState& comm, const Slot& slot, Strategy before) {
  const StrategyChooser& chooser = slot.strategy->chooser;
  StrategyFigures& figures = slot.stats->strategy;
  for (size_t i = 0; i < kStrategies; ++i)
    figures.times[i].store(chooser.time(static_cast<Strategy>(i)), std::memory_order_relaxed);
  figures.trials.store(chooser.nTrials(), std::memory_order_relaxed);
  const Strategy choice = chooser.choice();
  figures.choice.store(static_cast<uint32_t>(choice), std::memory_order_relaxed);
  if (choice == before) return;
  const auto microseconds = [&](Strategy strategy) {
    return static_cast<double>(chooser.time(strategy)) / 1e3;
  };
  CINCH_INFO("POLICY", "%s: %s: %s from here on: %.0f us plain, %.0f us compressed, %.0f us quick",
             comm.name.c_str(), slot.name.c_str(), kStrategyTexts[static_cast<size_t>(choice)],
             microseconds(Strategy::pass), microseconds(Strategy::compress),
             microseconds(Strategy::quick));
}

// What has not come by the call of that number comes too late, on all ranks alike.
Result<void> hearRound(CommState& comm, Slot& slot, uint64_t round, uint64_t call) {
  StrategyChooser& chooser = slot.strategy->chooser;
  Result<std::optional<std::vector<uint8_t>>> pooled = std::optional<std::vector<uint8_t>>();
  if (chooser.isPooled(round)) pooled = comm.decisions.take(poolTopic(slot, round), call);
  CINCH_TRY(pooled);
  const Strategy before = chooser.choice();
  chooser.hear(round, pooled.value() ? leastOf(*pooled.value()) : std::vector<uint64_t>());
  report(comm, slot, before);
  return {};
}

// A group that NCCL refuses is repeated: its rounds have begun then.
Result<void> beginRound(const std::shared_ptr<CommState>& comm, Slot& slot, uint64_t round,
                        uint64_t call) {
  SlotStrategy& own = *slot.strategy;
  for (; own.nHeard + own.chooser.delay() <= round; ++own.nHeard)
    CINCH_TRY(hearRound(*comm, slot, own.nHeard, call));
  const uint64_t now = Stopwatch::steadyNow();
  if (round >= 1 && own.nPooled == round - 1) {
    const bool isPooled = own.chooser.isPooled(round - 1) && !comm->decisions.isReplayed();
    if (isPooled) poolInBackground(comm, slot, round - 1, now - own.roundBegun);
    own.nPooled = round;
  }
  own.roundBegun = now;
  return {};
}

// At the last turn of a round: what is heard before the next one is to be on its way, whatever has
// not ended. Not later, since a thread may drive several ranks in turn, and calls may wait.
void hurry(SlotStrategy& strategy, uint64_t nextRound) {
  const uint64_t delay = strategy.chooser.delay();
  if (nextRound >= delay) strategy.nAwaited.store(nextRound - delay + 1);
}

// How many calls of the slot were not to pass, as its checkups count them.
uint64_t callsOf(const SlotStrategy& strategy) {
  return strategy.nTurns[static_cast<size_t>(Strategy::compress)] +
         strategy.nTurns[static_cast<size_t>(Strategy::quick)];
}

bool isExamined(const Slot& slot) {
  return slot.checkup && slot.checkup->schedule.examines(callsOf(*slot.strategy));
}

// How the slot begins takes effect at its first call, and may be so that no call may be quick.
bool isFirst(const Slot& slot) {
  return slot.checkup && slot.checkup->schedule.hasOpening && callsOf(*slot.strategy) == 0;
}

// What is examined is what the codec does.
Strategy strategyOf(const Slot& slot, uint64_t turn) {
  const Strategy chosen = slot.strategy->chooser.at(turn);
  const bool mayBeQuick = !isExamined(slot) && !isFirst(slot);
  return chosen == Strategy::quick && !mayBeQuick ? Strategy::compress : chosen;
}

// What is also reduced exactly takes longer, and so does the first call of a kind.
bool isTypical(const Slot& slot, Strategy strategy) {
  if (strategy == Strategy::pass) return true;
  const bool isFirst = slot.strategy->nTurns[static_cast<size_t>(strategy)] == 0;
  return !isFirst && !isExamined(slot);
}

void noteTurn(Slot& slot, const Turn& turn) {
  SlotStrategy& own = *slot.strategy;
  own.chooser.note(turn.number, turn.strategy, isTypical(slot, turn.strategy));
  ++own.nTurns[static_cast<size_t>(turn.strategy)];
  if (turn.strategy != Strategy::compress) return;
  // What it left out long ago is of no use any more.
  if (turn.number > own.lastCompressed + 2 * kRound) slot.dropResiduals();
  own.lastCompressed = turn.number;
}

}  // namespace

Result<Turn> beginTurn(const std::shared_ptr<CommState>& comm, Slot& slot, bool isReady,
                       uint64_t call) {
  if (!slot.strategy) return Turn{.strategy = isReady ? Strategy::compress : Strategy::pass};
  SlotStrategy& own = *slot.strategy;
  Turn turn{.slot = &slot, .number = own.nextTurn};
  if (slot.quickPlan && !slot.mayBeQuick(turn.number)) own.chooser.dropQuick();
  if (turn.number % kRound == 0) CINCH_TRY(beginRound(comm, slot, turn.number / kRound, call));
  turn.strategy = isReady ? strategyOf(slot, turn.number) : Strategy::pass;
  noteTurn(slot, turn);
  ++own.nextTurn;
  if (own.nextTurn % kRound == 0) hurry(own, own.nextTurn / kRound);
  return turn;
}

void startTurn(const CommState& comm, const Turn& turn, CUstream_st* stream) {
  if (turn.slot == nullptr) return;
  SlotStrategy& own = *turn.slot->strategy;
  if (comm.decisions.isReplayed() || !own.chooser.isTimed(turn.number))
    return own.stopwatch.startUntimed(turn.number);
  const CurrentDevice current(*comm.resources.device, comm.resources.cudaDevice);
  own.stopwatch.start(turn.number, stream);
}

void endTurn(const CommState& comm, const Turn& turn, CUstream_st* stream, bool isEnqueued) {
  if (turn.slot == nullptr) return;
  Stopwatch& stopwatch = turn.slot->strategy->stopwatch;
  if (!isEnqueued) return stopwatch.giveUp(turn.number);
  const CurrentDevice current(*comm.resources.device, comm.resources.cudaDevice);
  stopwatch.stop(turn.number, stream);
}

void takeBack(CommState& comm, const Signature& signature, const Turn& turn) {
  comm.takeBack(signature);
  if (turn.isNumbered && !comm.decisions.takeBack())
    comm.fail(errorf(Status::invalidUsage,
                     "%s: a call was refused, or only simulated, with which the ranks had begun to "
                     "go on in another way",
                     describe(signature).c_str()));
  if (turn.slot == nullptr) return;
  SlotStrategy& own = *turn.slot->strategy;
  own.takeBack(turn.strategy);
  // What the turn was to do is forgotten, and the other ranks may do it.
  if (own.nHeard + own.chooser.delay() > turn.number / kRound + StrategyChooser::kRoundsKept)
    comm.fail(errorf(Status::invalidUsage, "%s: a group of so many calls cannot be repeated",
                     turn.slot->name.c_str()));
}

}  // namespace cinch
