#include "interpose/policy/sequence.h"

#include <algorithm>
#include <utility>

namespace cinch {
namespace {

// Of the small calls between two large ones: more than a step of a model has, and few enough for
// memory.
constexpr size_t kMostSmall = 4096;
// How often an ambiguous period has to have repeated itself. Its exam takes three calls, and
// getting ready two: it is compressed from its tenth time on.
constexpr uint32_t kTimesAmbiguous = 3;
// Looked for with each call. What comes in more than so many shapes is no exception.
constexpr size_t kMostBeside = 16;
// Longer runs need not be told apart.
constexpr uint32_t kLongRun = 2 * PeriodFinder::kMaxPeriod;

// A step of equal parts is known once it has been seen three times, which takes longer than for its
// parts.
bool mayRepeatInto(uint64_t parameters, uint64_t reduced) {
  const uint64_t nTimes = reduced == 0 ? 0 : (parameters + reduced / 2) / reduced;
  return nTimes > 1 && isModel(nTimes * reduced, parameters);
}

}  // namespace

// An ambiguous period may be a structure within a step. The finder goes on beside it, and finds the
// step when that structure ends.
bool Sequence::Period::isYoung(uint32_t heldFor) const {
  return !word.empty() && kind == Place::Kind::ambiguous && heldFor < kLongerThanStep;
}

bool Sequence::Symbol::isLargeReduction() const {
  return isOfStep() && isReduction(signature.kind);
}

bool Sequence::Symbol::isLargeGather() const {
  return isLarge && signature.kind == CallKind::allGather;
}

Place Sequence::observeUnknown(const Signature& signature, bool isLarge) {
  if (!isOfStep(signature, isLarge)) return {};
  return observe({CallKind::allReduce, OpClass::sum, ncclFloat32, 0}, SignatureTable::kNoIndex,
                 true);
}

Place Sequence::observe(const Signature& signature, uint32_t index, bool isLarge) {
  if (index >= symbols_.size()) symbols_.resize(index + 1);
  Symbol& symbol = symbols_[index];
  symbol.signature = signature;
  symbol.isLarge = isLarge;
  ++symbol.times;
  const Observed call{index, cursor_.position, isNewParameters(index)};
  if (period_.isBeside(index)) noteBeside();
  const bool wasOnTrack = cursor_.isOnTrack, wasYoung = period_.isYoung(heldFor_);
  const Place place = follow(call);
  model_.note(signature, isLarge, symbol.times == 1 || call.bringsParameters);
  if (cursor_.isOnTrack) {
    keep(call);
    if (wasYoung && symbol.isOfStep()) finder_.feed(index, symbol.isLargeReduction());
    return place;
  }
  if (wasOnTrack) lose(call);
  if (call.bringsParameters || !symbol.isOfStep()) return place;
  rejoin(index);
  if (!cursor_.isOnTrack) learn(index);
  return place;
}

// Of a call that has its place in the period, or none.
void Sequence::keep(const Observed& call) {
  const Signature& signature = symbols_[call.symbol].signature;
  if (!isIgnorable(call.symbol)) {
    heldFor_ += heldFor_ < kLongRun;
    period_.beside.since += period_.beside.since < kLongRun;
    // Without allocations: this is done in every step.
    std::swap(period_.word[call.position].smallBefore, small_);
    small_.clear();
    if (heldFor_ == 2 * period_.word.size()) takeForBeside();
  } else if (signature.kind == CallKind::allReduce && isCompressibleType(signature.dataType) &&
             small_.size() < kMostSmall) {
    small_.push_back({signature.dataType, signature.count, {}});
  }
}

// --- A known period.

// Losing count of anything else would put the calls after it in a wrong place.
bool Sequence::isIgnorable(uint32_t symbol) const {
  if (period_.has(symbol)) return false;
  return !symbols_[symbol].isLargeReduction() || period_.isBeside(symbol);
}

bool Sequence::Period::isBeside(uint32_t symbol) const {
  return std::ranges::count(beside.calls, symbol) > 0;
}

// What comes again with less than a period between, or more of it in a row than when it was
// learned, is more than an interruption: gradients may be reduced by such calls from now on.
void Sequence::noteBeside() {
  Beside& beside = period_.beside;
  const bool goesOn = beside.since == 0;
  const bool comesSoon = !goesOn && beside.since < period_.word.size();
  beside.nInARow = goesOn ? beside.nInARow + 1 : 1;
  beside.since = 0;
  if (comesSoon || beside.nInARow > beside.calls.size()) beside = {};
}

bool Sequence::Period::has(uint32_t symbol) const {
  return symbol < times.size() && times[symbol] > 0;
}

Place Sequence::follow(const Observed& call) {
  if (!cursor_.isOnTrack) return {};
  if (isIgnorable(call.symbol)) {
    cursor_.isOnTrack = !call.bringsParameters;
    return {};
  }
  const Step& expected = period_.word[cursor_.position];
  if (expected.symbol != call.symbol) {
    cursor_.isOnTrack = false;
    return {};
  }
  cursor_.position = (cursor_.position + 1) % static_cast<uint32_t>(period_.word.size());
  return {period_.kind, epoch_, expected.slot, call.position};
}

std::optional<Place> Sequence::expected(uint32_t index) const {
  if (cursor_.isOnTrack || index >= period_.times.size() || period_.times[index] != 1)
    return std::nullopt;
  const auto isIt = [index](const Step& step) { return step.symbol == index; };
  const auto found = std::ranges::find_if(period_.word, isIt);
  return Place{period_.kind, epoch_, found->slot,
               static_cast<uint32_t>(found - period_.word.begin())};
}

TrainingStep Sequence::step() const {
  TrainingStep step;
  step.isPlaced = period_.kind == Place::Kind::known;
  step.isSharded = period_.isSharded;
  step.parameters = period_.parameters;
  for (const auto& [symbol, slot, small] : period_.word) {
    const Symbol& call = symbols_[symbol];
    const bool isBroadcast = call.isLarge && call.signature.kind == CallKind::broadcast;
    step.calls.push_back(
        {call.signature, slot, call.isLargeReduction(), call.isLargeGather(), isBroadcast});
  }
  step.watchGathers();
  return step;
}

// PyTorch DDP broadcasts the parameters of a new model. It broadcasts the order of new buckets,
// too: these are seen by their sizes, and where they have the same, the period holds on and
// CommState drops the residuals.
bool Sequence::isNewParameters(uint32_t symbol) const {
  const Symbol& call = symbols_[symbol];
  if (call.signature.kind != CallKind::broadcast || !isIgnorable(symbol)) return false;
  return isCompressibleType(call.signature.dataType) && call.isLarge && !period_.word.empty();
}

void Sequence::forget(bool isPartOfStream) {
  period_.word.clear();
  period_.times.clear();
  period_.beside = {};
  fits_.clear();
  small_.clear();
  wentOn_ = false;
  cursor_ = {};
  if (!isPartOfStream) finder_.restart();
}

void Sequence::lose(const Observed& surprise) {
  // Of other parameters nothing that went before is a part.
  if (period_.isYoung(heldFor_)) return forget(!surprise.bringsParameters);
  if (period_.kind != Place::Kind::known || heldFor_ < 2 * period_.word.size()) {
    if (!surprise.bringsParameters) finder_.broke(heldFor_);
    return forget();
  }
  fits_.assign(period_.word.size(), 0);
  sinceLost_ = 0;
  surprise_ = {{}, surprise.position, surprise.bringsParameters};
  wentOn_ = false;
  small_.clear();
  finder_.restart();
}

// The period goes on, at whatever position, once it has been seen whole: as a rule only one
// rotation of it fits for so long.
void Sequence::rejoin(uint32_t symbol) {
  if (period_.word.empty() || isIgnorable(symbol)) return;
  const auto length = static_cast<uint32_t>(period_.word.size());
  int nFitting = 0;
  for (uint32_t rotation = 0, position = sinceLost_ % length; rotation < length; ++rotation) {
    fits_[rotation] = period_.word[position].symbol == symbol ? fits_[rotation] + 1 : 0;
    position = position + 1 < length ? position + 1 : 0;  // what comes next in this rotation
    if (fits_[rotation] < length) continue;
    cursor_ = {true, position};
    ++nFitting;
  }
  const bool isInARow = sinceLost_ == surprise_.calls.size() && sinceLost_ <= kMostBeside;
  if (isInARow && !period_.has(symbol)) surprise_.calls.push_back(symbol);
  ++sinceLost_;
  if (nFitting > 1) return forget();
  if (nFitting == 0) return;
  if (!fitsParameters()) return forget(true);
  const size_t nSurprises = surprise_.calls.size();
  wentOn_ =
      nSurprises > 0 && sinceLost_ == length + nSurprises && cursor_.position == surprise_.position;
  heldFor_ = 0;
  ++epoch_;
}

// Of another model the period is no step, though it may be a part of one.
bool Sequence::fitsParameters() const {
  if (period_.kind != Place::Kind::known) return true;
  std::vector<uint32_t> word;
  for (const Step& step : period_.word) word.push_back(step.symbol);
  return contentOf(word).isWholeModel;
}

// The period went on where it had been before the surprise, for two periods by now: averages of
// weights every so often, or the sums of an evaluation, which are ignored from now on. What comes
// more often than that is a part of another period.
void Sequence::takeForBeside() {
  if (!std::exchange(wentOn_, false)) return;
  Beside& beside = period_.beside;
  if (beside.calls.size() + surprise_.calls.size() > kMostBeside) return;
  beside.calls.insert(beside.calls.end(), surprise_.calls.begin(), surprise_.calls.end());
  beside.since = heldFor_;
}

std::vector<GradientCall> Sequence::gradients() const {
  std::vector<GradientCall> calls;
  if (!cursor_.isOnTrack || period_.kind != Place::Kind::known) return calls;
  for (const Step& step : period_.word) {
    calls.insert(calls.end(), step.smallBefore.begin(), step.smallBefore.end());
    const Signature& call = symbols_[step.symbol].signature;
    if (call.kind == CallKind::allReduce) calls.push_back({call.dataType, call.count, step.slot});
  }
  return calls;
}

// --- Learning a period.

void Sequence::learn(uint32_t symbol) {
  const auto enough = [this](std::span<const uint32_t> word) { return callsEnoughFor(word); };
  finder_.feed(symbol, symbols_[symbol].isLargeReduction());
  if (const auto length = finder_.period(1, enough)) lock(*length);
}

uint32_t Sequence::callsEnoughFor(std::span<const uint32_t> word) const {
  const Content content = contentOf(word);
  if (content.isWholeModel) return 0;
  // It goes on, after an evaluation; not so with new parameters.
  const bool isLost = !period_.word.empty() && !surprise_.bringsParameters;
  // Where the first step gathers more, DeepSpeed's are known two at a time.
  std::vector<uint32_t> twice(word.begin(), word.end());
  twice.insert(twice.end(), word.begin(), word.end());
  const bool mayBePart =
      mayRepeatInto(parametersFor(content.reductions), valuesOf(content.reductions)) ||
      contentOf(twice).isWholeModel;
  return isLost || mayBePart ? kLongerThanStep
                             : kTimesAmbiguous * static_cast<uint32_t>(word.size());
}

Sequence::Content Sequence::contentOf(std::span<const uint32_t> word) const {
  Content content;
  std::vector<bool> sorts;  // of the large calls: reductions, or gathers
  for (const uint32_t symbol : word) {
    const Symbol& call = symbols_[symbol];
    if (call.isLargeReduction()) content.reductions.push_back(symbol);
    if (call.isLargeGather()) content.gathered += call.signature.count;
    if (call.isLargeReduction() || call.isLargeGather()) sorts.push_back(call.isLargeReduction());
  }
  for (size_t i = 0; i < sorts.size(); ++i)
    content.nRuns += sorts[i] != sorts[(i + 1) % sorts.size()];
  content.nPerStep = callsPerStep(content.reductions);
  content.isWholeModel = isWholeModel(std::span(content.reductions).first(content.nPerStep));
  content.isSharded = !content.isWholeModel && isShardedModel(content);
  content.isWholeModel = content.isWholeModel || content.isSharded;
  return content;
}

uint64_t Sequence::valuesOf(std::span<const uint32_t> calls) const {
  uint64_t values = 0;
  for (const uint32_t call : calls) values += symbols_[call].signature.count;
  return values;
}

uint64_t Sequence::parametersFor(std::span<const uint32_t> reductions) const {
  const bool areShards = std::ranges::any_of(reductions, [this](uint32_t call) {
    return symbols_[call].signature.kind == CallKind::reduceScatter;
  });
  return model_.parametersFor(valuesOf(reductions), areShards);
}

bool Sequence::isWholeModel(std::span<const uint32_t> reductions) const {
  return isModel(valuesOf(reductions), parametersFor(reductions));
}

// Every shard is reduced once, and gathered for the forward and mostly again for the backward pass.
// Either the first forward pass has gathered the model, of which one layer of a backward pass is
// not half; or the weights are gathered after all gradients were reduced. The gathers and
// reductions of tensor-parallel activations alternate, from the first layer on.
bool Sequence::isShardedModel(const Content& content) const {
  const uint64_t reduced = valuesOf(content.reductions), slack = reduced / 50;
  const uint64_t before = model_.gathered();
  if (content.looksAlike() || content.gathered + slack < reduced) return false;
  const bool gathersFirst = before + slack > reduced && before < reduced + reduced / 2 &&
                            content.gathered < 2 * (reduced + slack);
  const bool gathersLast = content.nRuns == 2 && content.gathered < reduced + slack;
  return gathersFirst || (gathersLast && before < reduced + slack);
}

bool Sequence::Content::looksAlike() const {
  return std::all_of(reductions.begin(), reductions.end(),
                     [this](uint32_t call) { return call == reductions.front(); });
}

// Micro-batches: where a period reduces the whole model several times over, each time by the same
// calls, these share their slots. The number of calls of one of them.
uint32_t Sequence::callsPerStep(std::span<const uint32_t> reductions) const {
  for (uint32_t n = 1; n <= reductions.size() / 2; ++n)
    if (reductions.size() % n == 0 &&
        std::equal(reductions.begin() + n, reductions.end(), reductions.begin()) &&
        isWholeModel(reductions.first(n)))
      return n;
  return static_cast<uint32_t>(reductions.size());
}

void Sequence::lock(uint32_t length) {
  const std::span<const uint32_t> word = finder_.last(length);
  const Content content = contentOf(word);
  period_.beside = {};
  period_.times.assign(symbols_.size(), 0);
  period_.word.clear();
  for (uint32_t nReductions = 0; const uint32_t symbol : word) {
    ++period_.times[symbol];
    period_.word.push_back({symbol, nReductions % content.nPerStep, {}});
    nReductions += symbols_[symbol].isLargeReduction();
  }
  const bool canBeToldApart = content.nPerStep == 1 || !content.looksAlike();
  period_.kind =
      content.isWholeModel && canBeToldApart ? Place::Kind::known : Place::Kind::ambiguous;
  period_.isSharded = content.isSharded;
  period_.parameters = parametersFor(std::span(content.reductions).first(content.nPerStep));
  heldFor_ = finder_.heldFor(length);
  cursor_ = {true, 0};
  ++epoch_;
  ++period_.number;
}

}  // namespace cinch
