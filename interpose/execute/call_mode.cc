#include "interpose/execute/call_mode.h"

#include <chrono>
#include <utility>

#include "common/log.h"
#include "interpose/comm/background.h"
#include "interpose/execute/residuals.h"

namespace cinch {
namespace {

using Clock = std::chrono::steady_clock;

// How long after a block its last call may still be on its way.
constexpr std::chrono::seconds kBlockPatience{30};

// What was left out so many calls ago is of no use any more: a block of plain calls of another
// sending, and the one after it.
constexpr uint64_t kResidualLife = 16;

// The timings of one block of this rank's, on their way to the other ranks.
class BlockToReduce {
 public:
  BlockToReduce(std::shared_ptr<CommState> comm, const StepSelection& selection,
                const BlockTimings& block)
      : comm_(std::move(comm)), selection_(&selection), block_(block) {}

  // False where some are not known yet, and may still be waited for.
  bool tryToEnd() const {
    useDevice(*comm_->resources.device, comm_->resources.cudaDevice);
    const RelaxedCapture relaxed(*comm_->resources.device);
    const bool mayWait =
        !selection_->isLate(block_) && !comm_->hasFailed() && Clock::now() < deadline_;
    if (mayWait && selection_->isPending(block_)) return false;
    send(selection_->timingsOf(block_));
    return true;
  }
  void sendNone() const { send(std::vector<uint64_t>(block_.nSamples, kNotTimed)); }

 private:
  // If the channel has ended, nothing comes of it.
  void send(const std::vector<uint64_t>& timings) const {
    (void)comm_->agreement().pool(block_.topic, timings);
  }

  std::shared_ptr<CommState> comm_;
  const StepSelection* selection_;  // of its communicator, and lives as long
  BlockTimings block_;
  Clock::time_point deadline_ = Clock::now() + kBlockPatience;
};

void open(const CommState& comm, StepSelection& selection, const std::string& name,
          SendingFigures& figures) {
  if (selection.isOpen()) return;
  const RelaxedCapture relaxed(*comm.resources.device);
  const CurrentDevice current(*comm.resources.device, comm.resources.cudaDevice);
  if (const auto made = selection.open(*comm.resources.device, name, figures); !made.ok())
    CINCH_WARN("POLICY", "%s is not timed here: %s", name.c_str(), made.error().message.c_str());
}

// `slot`: whose calls are the periods; null: steps are.
Result<void> beginPeriod(const std::shared_ptr<CommState>& comm, StepSelection& selection,
                         Slot* slot, const PeriodStart& start) {
  const CurrentDevice current(*comm->resources.device, comm->resources.cudaDevice);
  const bool hadResiduals = selection.residuals().areHeld;
  const auto ended = selection.beginPeriod(comm->decisions, start);
  CINCH_TRY(ended);
  if (!hadResiduals && selection.residuals().areHeld) comm->resumeResiduals();
  if (const auto question = selection.nextQuestion())
    CINCH_TRY(askForResiduals(*comm, selection.residuals(), *question, slot, start.stream));
  if (!selection.mayHoldResiduals()) CINCH_TRY(giveResidualsBack(*comm, slot, start.stream));
  if (!ended.value() || comm->decisions.isReplayed()) return {};
  const BlockToReduce task(comm, selection, *ended.value());
  if (!runInBackground([task] { return task.tryToEnd(); })) task.sendNone();
  return {};
}

bool hasPlace(const CommState::Decision& decision) {
  return decision.place.kind != Place::Kind::unknown;
}

// Audits count the calls of the slot that were compressed.
bool isAudited(const Slot& slot) {
  return slot.checkup && slot.checkup->schedule.examines(slot.made.nCompressed);
}

// Where no residuals are held, what the guard examines is exact, and what may not be stateless is
// plain.
CallMode modeOf(Slot& slot, const StepSelection& selection) {
  const StepMode& mode = selection.mode();
  const bool holdsResiduals = selection.residuals().hold(slot.made.question);
  CallMode chosen{.slot = &slot, .sending = mode.sending, .hasFeedback = holdsResiduals};
  if (slot.plan.inputBytes() < mode.minBytes) chosen.sending = Sending::plain;
  const bool hasFull = holdsResiduals || slot.rule.gain == 0;
  if (chosen.sending == Sending::plain || (chosen.sending == Sending::full && hasFull))
    return chosen;
  chosen.sending = Sending::stateless;
  if (isAudited(slot))
    chosen.sending = Sending::full;
  else if (!slot.mayBeStateless(slot.made.nCalls))
    chosen.sending = hasFull ? Sending::full : Sending::plain;
  return chosen;
}

void count(Slot& slot, CallMode& mode, uint64_t number) {
  SlotCalls& made = slot.made;
  if (mode.sending != Sending::plain) ++made.nCompressed;
  if (mode.sending == Sending::full && mode.hasFeedback) {
    const bool hasUsed = made.lastFull != 0;
    if (hasUsed && made.nCalls > made.lastFull + kResidualLife) slot.residuals.drop();
    made.lastFull = made.nCalls;
  }
  mode.numberBefore = std::exchange(made.number, number);
  ++made.nCalls;
}

}  // namespace

Result<void> followPeriods(const std::shared_ptr<CommState>& state,
                           const CommState::Decision& decision, const PeriodStart& start) {
  CommState& comm = *state;
  if (!comm.selections.isOn || !hasPlace(decision)) return {};
  StepSelection& steps = comm.selections.ofSteps;
  comm.selections.touch(steps);
  if (!steps.startsPeriod(decision.place, decision.periodCalls)) return {};
  if (!steps.hasBegun()) {
    if (!steps.mayHoldResiduals()) CINCH_TRY(giveResidualsBack(comm, nullptr, start.stream));
    if (!steps.wasReady()) return {};
    open(comm, steps, comm.name, *comm.selections.figures);
    steps.begin(comm.selectorOptions());
  }
  return beginPeriod(state, steps, nullptr, start);
}

Result<CallMode> chooseMode(const std::shared_ptr<CommState>& state,
                            const CommState::Decision& decision, bool isReady, PeriodStart start) {
  CommState& comm = *state;
  CallMode mode{.sending = isReady ? Sending::full : Sending::plain};
  if (!comm.selections.isOn) return mode;
  StepSelection* selection = &comm.selections.ofSteps;
  if (decision.slot == nullptr) {
    if (hasPlace(decision)) selection->noteReadiness({.isReady = isReady});
    return mode;
  }
  Slot& slot = *decision.slot;
  const bool mayBeStateless = slot.rule.gain == 0 || slot.mayBeStateless(slot.made.nCalls);
  if (hasPlace(decision))
    selection->noteReadiness(
        {.isReady = isReady,
         .bytes = slot.plan.inputBytes(),
         .mayBeStateless = mayBeStateless,
         .lacksResiduals = slot.rule.gain > 0 && !selection->residuals().hold(slot.made.question)});
  start.mayBeStateless = mayBeStateless;
  mode.slot = &slot;
  if (!hasPlace(decision) && isReady) {
    selection = &comm.selections.ofCalls(slot.identity);
    comm.selections.touch(*selection);
    open(comm, *selection, slot.name, slot.stats->sending);
    if (!selection->hasBegun())
      selection->begin({.seed = comm.selections.seed ^ slot.identity,
                        .hasStateless = slot.statelessPlan.has_value(),
                        .hasResiduals = slot.rule.gain > 0});
    CINCH_TRY(beginPeriod(state, *selection, &slot, start));
  }
  if (isReady) mode = modeOf(slot, *selection);
  count(slot, mode, decision.number);
  return mode;
}

void takeBack(CommState& comm, const Signature& signature, const CallMode& mode) {
  comm.takeBack(signature);
  if (mode.isNumbered && !comm.decisions.takeBack())
    comm.fail(errorf(Status::invalidUsage,
                     "%s: a call was refused, or only simulated, with which the ranks had begun to "
                     "go on in another way",
                     describe(signature).c_str()));
  if (mode.slot == nullptr) return;
  SlotCalls& made = mode.slot->made;
  --made.nCalls;
  made.number = mode.numberBefore;
  if (mode.sending != Sending::plain) --made.nCompressed;
}

}  // namespace cinch
