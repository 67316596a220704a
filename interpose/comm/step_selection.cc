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
  const bool isSame = step.last && step.periodCalls == periodCalls;
  if (!isSame) {
    if (now_.selector) now_.nBlocks = now_.selector->upcoming();
    now_.selector.reset();
    now_.mode = {};
    step = {.periodCalls = periodCalls};
  } else if (step.last->epoch != place.epoch) {
    now_.isAtypical = true;
  }
  const bool starts =
      !step.last || step.last->epoch != place.epoch || place.position <= step.last->position;
  step.last = place;
  if (starts) endPeriod();
  return starts;
}

void StepSelection::noteReadiness(bool isReady) {
  (isReady ? now_.step.hasReady : now_.step.hasUnready) = true;
}

// While some calls get ready, as all do again after a surprise, they pass, and the period takes
// longer than it will.
void StepSelection::endPeriod() {
  Step& step = now_.step;
  const bool hadReady = std::exchange(step.hasReady, false);
  const bool hadUnready = std::exchange(step.hasUnready, false);
  step.nPartlyReady = hadReady && hadUnready ? step.nPartlyReady + 1 : 0;
  const bool isForGood = step.nPartlyReady >= kPartlyReadyFor;
  step.wasReady = hadReady && (!hadUnready || isForGood);
  now_.isAtypical = now_.isAtypical || (hadUnready && !isForGood);
}

void StepSelection::begin(Selector::Options options) {
  options.firstBlock = now_.nBlocks;
  now_.selector.emplace(options);
  now_.isAtypical = false;
}

Result<void> StepSelection::beginPeriod(CommDecisions& decisions, uint64_t call, void* stream) {
  isChanged_ = true;
  CINCH_TRY(receive(decisions, call));
  State& now = now_;
  if (std::exchange(now.isAtypical, false)) now.atypical |= 1u << now.sample;
  const Selector::Period period = now.selector->next();
  now.mode = period.mode;
  if (!period.sample) return {};
  if (period.ended)
    ended_.push_back({topicOfBlock(period.ended->block), period.ended->block, now.firstMark,
                      period.ended->nSamples, now.nPerSample, now.atypical});
  now.sample = *period.sample;
  if (now.sample == 0) {
    now.firstMark = now.nMarks;
    now.nPerSample = period.nPeriods;
    now.atypical = 0;
  }
  if (!decisions.isReplayed()) timer_.mark(now.nMarks, stream);
  ++now.nMarks;
  // A thread may drive several ranks in turn, whose calls wait for the block before this one when
  // the next one begins: it is on its way then, whatever has not ended.
  const bool isLast = now.sample + 1 == kBlockSamples;
  if (decisions.callsWait() && isLast) late_.store(period.block);
  return {};
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
    const bool isDue = !decisions.callsWait() || selector.upcoming() >= block + 2;
    if (block == kNoBlock || !isDue) continue;
    const auto received = receiveBlock(decisions, call, block);
    CINCH_TRY(received);
    hasReceived = hasReceived || received.value();
  }
  if (hasReceived) report(before);
  return {};
}

Result<bool> StepSelection::receiveBlock(CommDecisions& decisions, uint64_t call, uint64_t block) {
  auto known = std::ranges::find(received_, block, &Received::block);
  if (known == received_.end()) {
    const auto reduced = decisions.take(topicOfBlock(block), call);
    CINCH_TRY(reduced);
    if (!reduced.value()) return false;
    known = received_.insert(known, {block, leastOf(*reduced.value())});
  }
  now_.selector->receive(block, known->least);
  return true;
}

void StepSelection::report(const StepMode& before) const {
  const Selector::Summary found = now_.selector->summary();
  for (size_t i = 0; i < kSendings; ++i) {
    figures_->times[i].store(found.times[i], std::memory_order_relaxed);
    figures_->percentSd[i].store(found.percentSd[i], std::memory_order_relaxed);
  }
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

void StepSelection::commit(std::vector<BlockTimings>& ended) {
  if (!std::exchange(isChanged_, false)) return;
  made_ = now_;
  ended.insert(ended.end(), ended_.begin(), ended_.end());
  ended_.clear();
  received_.clear();
}

void StepSelection::takeBack() {
  if (!std::exchange(isChanged_, false)) return;
  now_ = made_;
  ended_.clear();
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

void StepSelections::commit(std::vector<Ended>& ended) {
  for (StepSelection* selection : touched_) {
    selection->commit(blocks_);
    for (const BlockTimings& block : blocks_) ended.push_back({selection, block});
    blocks_.clear();
  }
  touched_.clear();
}

void StepSelections::takeBack() {
  for (StepSelection* selection : touched_) selection->takeBack();
  touched_.clear();
}

}  // namespace cinch
