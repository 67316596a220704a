#include "interpose/comm/step_selection.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "common/log.h"
#include "interpose/agree/agreement.h"
#include "interpose/comm/comm_decisions.h"
#include "interpose/comm/topic.h"

namespace cinch {
namespace {

static_assert(kNotTimed == kNoFigure);
static_assert(kSendings == std::size(kSendingTexts));

// Else a mark would be another one's before its block is timed, whose end is the next block's first
// mark: blocks that are awaited, and the one under way.
static_assert(StepTimer::kMarks > (kMaxAwaited + 1) * kBlockSamples);

// Where some calls of a step never get ready (the programs of the ranks are too far apart), the
// others are not to wait for them for ever. Getting ready takes two or three steps.
constexpr uint32_t kPartlyReadyFor = 16;

}  // namespace

Result<void> StepSelection::open(const DeviceTable& device, const std::string& name,
                                 SendingFigures& figures) {
  name_ = name;
  figures_ = &figures;
  return timer_.allocate(device);
}

bool StepSelection::startsPeriod(const Place& place, uint64_t periodCalls) {
  isChanged_ = true;
  Step& step = now_.step;
  if (!step.last || step.periodCalls != periodCalls) {
    if (now_.selector) now_.nBlocks = now_.selector->upcoming();
    now_.selector.reset();
    now_.mode = {};
    step = {.periodCalls = periodCalls};
  }
  const bool isBroken = step.last && step.last->epoch != place.epoch;
  // The one that it came in, and the one in which the place was found again.
  if (isBroken) step.nBroken = 2;
  const bool starts = !step.last || isBroken || place.position <= step.last->position;
  step.last = place;
  if (starts) endPeriod();
  return starts;
}

void StepSelection::noteReadiness(const Readiness& call) {
  Step& step = now_.step;
  (call.isReady ? step.hasReady : step.hasUnready) = true;
  if (!call.isReady) return;
  step.bytes += call.bytes;
  if (call.mayBeStateless) step.statelessBytes += call.bytes;
  step.lacksResiduals |= call.lacksResiduals;
}

// While some calls get ready, as all do again after a surprise, they pass, and the period takes
// longer than it will.
void StepSelection::endPeriod() {
  Step& step = now_.step;
  const bool hadReady = std::exchange(step.hasReady, false);
  const bool hadUnready = std::exchange(step.hasUnready, false);
  const uint64_t bytes = std::exchange(step.bytes, 0);
  step.shape = {.mayBeStateless = 2 * std::exchange(step.statelessBytes, 0) >= bytes,
                .lacksResiduals = std::exchange(step.lacksResiduals, false)};
  step.nPartlyReady = hadReady && hadUnready ? step.nPartlyReady + 1 : 0;
  const bool isForGood = step.nPartlyReady >= kPartlyReadyFor;
  step.wasReady = hadReady && (!hadUnready || isForGood);
  now_.isAtypical = (hadUnready && !isForGood) || step.nBroken > 0;
  if (step.nBroken > 0) --step.nBroken;
}

void StepSelection::begin(Selector::Options options) {
  options.firstBlock = now_.nBlocks;
  now_.selector.emplace(options);
  now_.isAtypical = false;
  report({});
}

Result<std::optional<BlockTimings>> StepSelection::beginPeriod(CommDecisions& decisions,
                                                               const PeriodStart& start) {
  isChanged_ = true;
  State& now = now_;
  ++now.nPeriods;
  std::ranges::rotate(now.lastCalls, now.lastCalls.begin() + 1);
  now.lastCalls.back() = start.call;
  CINCH_TRY(receive(decisions, start.call));
  if (std::exchange(now.isAtypical, false)) now.atypical |= 1u << now.sample;
  Selector::Shape shape = now.step.shape;
  shape.mayBeStateless &= start.mayBeStateless;
  const Selector::Period period = now.selector->next(shape);
  now.mode = period.mode;
  if (!period.sample) return std::optional<BlockTimings>();
  // What a group holds is enqueued when it ends: between two marks in it there is nothing.
  if (start.group != 0 && start.group == now.markedGroup) now.atypical |= 1u << now.sample;
  now.markedGroup = start.group;
  std::optional<BlockTimings> ended;
  if (period.ended && period.ended->block >= nGiven_) {
    ended = {topicOfBlock(period.ended->block),
             period.ended->block,
             now.firstMark,
             period.ended->nSamples,
             now.nPerSample,
             now.atypical};
    nGiven_ = period.ended->block + 1;
  }
  if (!decisions.isReplayed()) mark(period, start);
  // A thread may drive several ranks in turn, whose calls wait for the block before this one when
  // the next one begins: it is on its way then, whatever has not ended. Where no call waits, a
  // device that is many steps behind is waited for.
  const bool isLast = now.sample + 1 == period.nSamples;
  if (decisions.callsWait() && isLast) late_.store(period.block);
  return ended;
}

void StepSelection::mark(const Selector::Period& period, const PeriodStart& start) {
  State& now = now_;
  now.sample = *period.sample;
  if (now.sample == 0) {
    now.firstMark = now.nMarks;
    now.nPerSample = period.nPeriods;
    now.atypical = 0;
  }
  // The end of the block before, too.
  if (period.isTimed || period.ended) timer_.mark(now.nMarks++, start.stream);
}

uint64_t StepSelection::topicOfBlock(uint64_t block) const {
  return topicOf(Subject::times, {identity_, block});
}

// Where calls wait, the timings of a block are waited for when the next block is over.
Result<void> StepSelection::receive(CommDecisions& decisions, uint64_t call) {
  Selector& selector = *now_.selector;
  const StepMode before = selector.summary().mode;
  bool hasReceived = false;
  for (const uint64_t block : selector.awaited()) {
    if (block == kNoBlock) break;
    if (decisions.callsWait() && selector.upcoming() < block + 2) continue;
    const uint64_t topic = topicOfBlock(block);
    const auto reduced = decisions.read(topic, call);
    CINCH_TRY(reduced);
    if (reduced.value() == nullptr) continue;
    selector.receive(block, leastOf(*reduced.value()));
    received_.push_back(topic);
    hasReceived = true;
  }
  CINCH_TRY(receiveAnswer(decisions, call));
  if (hasReceived) report(before);
  return {};
}

uint64_t StepSelection::topicOfQuestion(uint64_t question) const {
  return topicOf(Subject::residuals, {identity_, question});
}

std::optional<ResidualQuestion> StepSelection::nextQuestion() {
  const Selector::Residuals residuals = now_.residuals();
  const uint64_t number = residuals.question;
  if (!residuals.isAsked || number < now_.nAsked) return {};
  now_.nAsked = number + 1;
  const bool isAnswered = number < std::exchange(nAnswered_, std::max(nAnswered_, number + 1));
  return ResidualQuestion{number, topicOfQuestion(number), now_.lastCalls.front(), isAnswered};
}

// The least of what the ranks have said: 1 where all have memory. Where calls wait, when the block
// in which they were asked is over, and the next one, as for its timings.
Result<void> StepSelection::receiveAnswer(CommDecisions& decisions, uint64_t call) {
  Selector& selector = *now_.selector;
  const Selector::Residuals residuals = selector.residuals();
  const bool mayWait = decisions.callsWait();
  if (!residuals.isAsked || (mayWait && selector.upcoming() < residuals.question + 2)) return {};
  const uint64_t topic = topicOfQuestion(residuals.question);
  const auto said = decisions.read(topic, call);
  CINCH_TRY(said);
  if (said.value() == nullptr) return {};
  const std::vector<uint64_t> least = leastOf(*said.value());
  selector.answer(!least.empty() && least.front() == 1);
  received_.push_back(topic);
  return {};
}

void StepSelection::report(const StepMode& before) const {
  const Selector::Summary found = now_.selector->summary();
  for (size_t i = 0; i < kSendings; ++i) {
    figures_->times[i].store(found.times[i], std::memory_order_relaxed);
    figures_->percentSd[i].store(found.percentSd[i], std::memory_order_relaxed);
  }
  if (figures_->examinations.load(std::memory_order_relaxed) != found.nExaminations)
    figures_->examinedAt.store(now_.nPeriods, std::memory_order_relaxed);
  figures_->examinations.store(found.nExaminations, std::memory_order_relaxed);
  figures_->changes.store(found.nChanges, std::memory_order_relaxed);
  figures_->minBytes.store(found.mode.minBytes, std::memory_order_relaxed);
  const auto choice = static_cast<uint32_t>(found.mode.sending);
  figures_->choice.store(choice, std::memory_order_relaxed);
  if (found.mode == before) return;
  const auto milliseconds = [&](Sending sending) {
    return static_cast<double>(found.times[static_cast<size_t>(sending)]) / 1e6;
  };
  CINCH_INFO("POLICY",
             "%s: sent %s from here on: a step takes %.3g ms plain, %.3g ms stateless, "
             "%.3g ms full (0: not timed)",
             name_.c_str(), kSendingTexts[choice], milliseconds(Sending::plain),
             milliseconds(Sending::stateless), milliseconds(Sending::full));
}

void StepSelection::commit(CommDecisions& decisions) {
  if (!std::exchange(isChanged_, false)) return;
  made_ = now_;
  if (isOpen()) figures_->periods.store(made_.nPeriods, std::memory_order_relaxed);
  for (const uint64_t topic : received_) decisions.forget(topic);
  received_.clear();
}

void StepSelection::takeBack() {
  if (!std::exchange(isChanged_, false)) return;
  now_ = made_;
  received_.clear();
}

bool StepSelection::isPending(const BlockTimings& block) const {
  for (uint32_t i = 0; i <= block.nSamples; ++i)
    if (timer_.isPending(block.firstMark + i)) return true;
  return false;
}

std::vector<uint64_t> StepSelection::timingsOf(const BlockTimings& block) const {
  std::vector<uint64_t> timings(block.nSamples, kNotTimed);
  for (uint32_t i = 0; i < block.nSamples; ++i) {
    const uint64_t mark = block.firstMark + i;
    const bool isTimed = (block.atypical >> i & 1) == 0 && !timer_.isPending(mark + 1);
    const auto time = isTimed ? timer_.between(mark, mark + 1) : std::nullopt;
    if (time) timings[i] = *time / block.nPeriods;
  }
  return timings;
}

StepSelection& StepSelections::ofCalls(uint64_t identity) {
  auto& selection = ofCalls_[identity];
  if (!selection) selection = std::make_unique<StepSelection>(identity);
  return *selection;
}

void StepSelections::touch(StepSelection& selection) {
  if (std::ranges::find(touched_, &selection) == touched_.end()) touched_.push_back(&selection);
}

void StepSelections::commit(CommDecisions& decisions) {
  for (StepSelection* selection : touched_) selection->commit(decisions);
  touched_.clear();
}

void StepSelections::takeBack() {
  for (StepSelection* selection : touched_) selection->takeBack();
  touched_.clear();
}

}  // namespace cinch
