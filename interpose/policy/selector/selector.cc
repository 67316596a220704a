#include "interpose/policy/selector/selector.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <utility>

namespace cinch {
namespace {

// Of a timing that was not taken.
constexpr int64_t kNoLog = INT64_MIN;

// A sample: long enough for a gain of 2 % to be seen beside the tenths of a millisecond that a
// wake-up of the program or a switch between two schedules takes.
constexpr uint64_t kSampleTime = 25'000'000;  // ns
// While nothing is compared: a round of the ranks' control threads is paid for by more.
constexpr uint64_t kRestingTime = 4 * kSampleTime;
// What is worth a change, and what is not noise: 2 %.
constexpr int64_t kWorthwhile = 1872;
// In halves of a standard error of the mean. Where compressed periods are truly 10 % slower, and
// vary by a half, one job in thirty is led astray by 2.5 errors, one in a hundred by 3. A tie is
// the incumbent's, so less is enough to lose.
constexpr int64_t kToWin = 6;
constexpr int64_t kToLose = 2;
// So much slower ends a comparison: 1.25 times.
constexpr int64_t kFarSlower = 21098;
// The incumbent takes another time than before: off by 15 % twice in a row, or by half or double.
constexpr int64_t kOff = 13215;
constexpr int64_t kFarOff = kOctave;
// Rounds after which a tie is one: 160 ratios, in which a gain of 10 % shows at a noise of 0.3.
constexpr uint32_t kMaxRounds = 20;
// Blocks between two examinations, doubled up to so many times while they change nothing. A round
// of each challenger in 64 blocks costs a hundredth where these are a third slower.
constexpr uint64_t kShortestRest = 64;
constexpr uint32_t kMaxDoublings = 6;
// Of the incumbent's samples so many count in full.
constexpr int64_t kMaxLevel = 256;
constexpr int64_t kEnoughForDrift = 8;
// Candidates: those of Sending, then the thresholds.
constexpr uint32_t kCandidates = kSendings + 2;

void addTo(LogMoments& moments, std::span<const int64_t> logs) {
  for (const int64_t log : logs)
    if (log != kNoLog) moments.add(log);
}

LogMoments momentsOf(std::span<const int64_t> logs) {
  LogMoments moments;
  addTo(moments, logs);
  return moments;
}

// A coin that all ranks throw alike: a bit of splitmix64's mix.
bool isHeads(uint64_t seed, uint64_t number) {
  uint64_t mixed = seed + number * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
  return mixed >> 63 != 0;
}

// What is off by more than a factor of two, as by a checkpoint, counts as that.
int64_t within(int64_t bound, int64_t value) {
  return std::clamp(value, -bound, bound);
}

// Of at least one: the middle, which a pause in one sample does not move.
int64_t medianOf(std::array<int64_t, kBlockSamples> logs) {
  std::ranges::sort(logs, std::greater());  // kNoLog last
  const auto n =
      static_cast<size_t>(std::ranges::count_if(logs, [](int64_t log) { return log != kNoLog; }));
  return (logs[(n - 1) / 2] + logs[n / 2]) / 2;
}

// |distance| > `sds` standard errors of a mean of `n`.
bool isBeyond(int64_t distance, int64_t sds, int64_t spread, int64_t n) {
  return distance * distance * n > sds * spread * sds * spread;
}

// A ratio of `n` samples is far slower, beyond what the incumbent's noise may do, too.
bool isFarSlower(int64_t ratio, int64_t spread, int64_t n) {
  return ratio > kFarSlower && isBeyond(ratio, 2, spread, n);
}

StepMode modeOf(uint32_t candidate, const StepMode& incumbent, const Selector::Options& options) {
  if (candidate >= kSendings) return {incumbent.sending, options.thresholds[candidate - kSendings]};
  const auto sending = static_cast<Sending>(candidate);
  return {sending, sending == Sending::plain ? 0 : incumbent.minBytes};
}

// 1 where evidence is of the challenger over the incumbent, -1 where it is the other way round.
int64_t orientationOf(const StepMode& challenger, const StepMode& incumbent) {
  return challenger.sending < incumbent.sending ? -1 : 1;
}

}  // namespace

Selector::Selector(const Options& options) : options_(options) {
  current_.block.number = options.firstBlock - 1;
}

Selector::Period Selector::next(const Shape& shape) {
  examination_.shape = shape;
  Period period;
  if (current_.isCut || current_.isOver()) {
    if (current_.isOver() && current_.block.isTimed) {
      period.ended = {current_.block.number, current_.block.nSamples};
      open_[nOpen_++] = current_.block;
    }
    const Block block = blockToBegin();
    current_ = {.block = block, .nLeft = block.nPeriods, .isCut = false};
    period.sample = 0;
  } else if (current_.nLeft == 0) {
    current_.nLeft = current_.block.nPeriods;
    period.sample = ++current_.sample;
  }
  --current_.nLeft;
  period.mode = current_.block.mode;
  period.block = current_.block.number;
  period.nPeriods = current_.block.nPeriods;
  period.nSamples = current_.block.nSamples;
  period.isTimed = current_.block.isTimed;
  return period;
}

bool Selector::isToBePlaced() const {
  if (phase_ == Phase::probing) return examination_.nPlaced == 0 && nOpen_ < kMaxAwaited;
  if (phase_ != Phase::comparing || examination_.nPlaced == kBlockSamples) return false;
  // A round begins where all of it can be timed.
  return examination_.nPlaced > 0 || nOpen_ + kBlockSamples <= kMaxAwaited;
}

Selector::Block Selector::blockToBegin() {
  const uint64_t number = current_.block.number + 1;
  // Where timings no longer come, what is sent stays so.
  const bool areTimingsComing = nOpen_ < kMaxAwaited / 2;
  if (phase_ == Phase::resting && number >= rest_.until && areTimingsComing) examine();
  const uint64_t time = phase_ == Phase::resting ? kRestingTime : kSampleTime;
  const uint64_t nPeriods = time / valueOf(level_.scale) + 1;
  // Half of the room is for the blocks of a round.
  Block block{.number = number,
              .mode = incumbent_,
              .nPeriods = phase_ == Phase::scaling ? 1 : static_cast<uint32_t>(nPeriods),
              .isTimed = areTimingsComing};
  if (!isToBePlaced()) return block;
  block.isTimed = true;
  block.comparison = examination_.comparison;
  block.position = examination_.nPlaced++;
  if (phase_ == Phase::probing) {
    block.role = Role::probe;
    block.nSamples = 2;
    block.nPeriods = (block.nPeriods + 7) / 8;
  } else {
    const bool isReversed = isHeads(options_.seed, examination_.comparison);
    const bool isOuter = block.position == 0 || block.position == 3;
    block.role = isOuter == isReversed ? Role::challenger : Role::incumbent;
  }
  if (block.role != Role::incumbent) block.mode = examination_.challenger;
  return block;
}

std::array<uint64_t, kMaxAwaited> Selector::awaited() const {
  std::array<uint64_t, kMaxAwaited> numbers;
  numbers.fill(kNoBlock);
  for (size_t i = 0; i < nOpen_; ++i) numbers[i] = open_[i].number;
  return numbers;
}

std::optional<Selector::Block> Selector::close(uint64_t number) {
  const auto end = open_.begin() + static_cast<ptrdiff_t>(nOpen_);
  const auto found =
      std::find_if(open_.begin(), end, [&](const Block& block) { return block.number == number; });
  if (found == end) return {};
  const Block block = *found;
  std::move(found + 1, end, found);
  --nOpen_;
  return block;
}

void Selector::receive(uint64_t number, std::span<const uint64_t> least) {
  const auto block = close(number);
  if (!block) return;
  Logs logs;
  logs.fill(kNoLog);
  if (least.size() == block->nSamples)
    for (size_t i = 0; i < least.size(); ++i)
      if (least[i] != kNotTimed) logs[i] = logOf(std::max<uint64_t>(least[i], 1));
  if (block->role != Role::probe && momentsOf(logs).count() > 0)
    recent_[static_cast<size_t>(block->mode.sending)] = momentsOf(logs);
  // A drift ends what the block may belong to.
  if (block->role == Role::incumbent && block->mode == incumbent_) receiveIncumbent(logs);
  if (block->comparison == 0 || block->comparison != examination_.comparison) return;
  if (block->role != Role::probe) return receiveCompared(*block, logs);
  // What is done once is done in the first sample.
  if (logs[1] == kNoLog) return tryNext();
  if (isFarSlower(logs[1] - level_.logs.mean(), level_.logs.spread(), 1)) return leaveSlow();
  enter(Phase::comparing);
}

void Selector::receiveIncumbent(const Logs& logs) {
  const LogMoments block = momentsOf(logs);
  if (block.count() == 0) return;
  level_.scale = medianOf(logs);
  if (phase_ == Phase::scaling) {
    enter(Phase::levelling);
    // Its samples were single periods, as those of long ones are.
    if (level_.scale < logOf(kSampleTime)) return;
  }
  const bool wasOff = level_.off != 0;
  if (hasDrifted(logs)) return forgetAll();
  if (wasOff) addToLevel(level_.held);
  level_.held = logs;
  if (level_.off == 0) addToLevel(logs);
  if (phase_ == Phase::levelling) examine();
}

void Selector::addToLevel(const Logs& logs) {
  const int64_t usual = level_.logs.mean();
  const bool isKnown = level_.logs.count() >= kEnoughForDrift;
  for (const int64_t log : logs)
    if (log != kNoLog) level_.logs.add(isKnown ? usual + within(kOctave, log - usual) : log);
  if (level_.logs.count() > kMaxLevel) level_.logs.fade();
}

// Whether the incumbent takes another time than before. A block that is off may be noise, and does
// not count before the next one says that it was.
bool Selector::hasDrifted(const Logs& logs) {
  if (level_.logs.count() < kEnoughForDrift) return false;
  const int64_t distance = medianOf(logs) - level_.logs.mean();
  const int64_t spread = level_.logs.spread();
  if (std::abs(distance) > std::max(kFarOff, 5 * spread)) return true;
  const bool isOff =
      std::abs(distance) > kOff && isBeyond(distance, 3, spread, momentsOf(logs).count());
  const int off = !isOff ? 0 : distance > 0 ? 1 : -1;
  return std::exchange(level_.off, off) == off && off != 0;
}

// What was found holds no longer. The incumbent stays until it is examined, which is at once.
void Selector::forgetAll() {
  level_ = {.scale = level_.scale};
  evidence_ = {};
  rest_.exponent = 0;
  enter(Phase::levelling);
}

void Selector::leaveSlow() {
  const bool isStateless = examination_.challenger.sending == Sending::stateless;
  if (isStateless) examination_.isStatelessFar = true;
  tryNext();
}

void Selector::receiveCompared(const Block& block, const Logs& logs) {
  examination_.round[block.position] = logs;
  examination_.isOfChallenger[block.position] = block.role == Role::challenger;
  const LogMoments found = momentsOf(logs);
  if (block.role == Role::challenger && found.count() > 0 &&
      isFarSlower(found.mean() - level_.logs.mean(), level_.logs.spread(), found.count()))
    return leaveSlow();
  if (++examination_.nReceived == kBlockSamples) judgeRound();
}

void Selector::judgeRound() {
  Evidence& known = evidence();
  const int64_t orientation = orientationOf(examination_.challenger, incumbent_);
  for (size_t i = 0; i < kBlockSamples; i += 2) {
    const size_t challenger = examination_.isOfChallenger[i] ? i : i + 1;
    const Logs& theirs = examination_.round[challenger];
    const Logs& own = examination_.round[i + i + 1 - challenger];
    for (size_t sample = 0; sample < kBlockSamples; ++sample)
      if (theirs[sample] != kNoLog && own[sample] != kNoLog)
        known.ratios.add(orientation * within(kOctave, theirs[sample] - own[sample]));
  }
  ++known.nRounds;
  const int64_t gain = -orientation * known.ratios.mean();
  const bool isPlain = examination_.challenger.sending == Sending::plain;
  const bool hasWon = isPlain ? gain > 0 && known.ratios.isBeyond(kToLose)
                              : gain > kWorthwhile && known.ratios.isBeyond(kToWin);
  const bool hasLost = gain < 0 && known.ratios.isBeyond(kToLose);
  if (hasWon) change();
  if (hasWon || hasLost || --examination_.nRoundsLeft == 0) return tryNext();
  enter(Phase::comparing);
}

void Selector::examine() {
  ++summary_.nExaminations;
  examination_.hasChanged = examination_.isStatelessFar = false;
  examination_.candidate = UINT32_MAX;
  const bool isFull = incumbent_.sending == Sending::full;
  if (isFull && options_.hasResiduals && examination_.shape.lacksResiduals)
    return enter(Phase::asking);
  tryNext();
}

void Selector::tryNext() {
  do ++examination_.candidate;
  while (examination_.candidate < kCandidates && !isWorthTrying(examination_.candidate));
  if (examination_.candidate == kCandidates) {
    rest_.hasThresholds = rest_.hasThresholds || incumbent_.sending != Sending::plain;
    if (examination_.hasChanged) rest_.exponent = 0;
    if (incumbent_.sending != Sending::full) examination_.residuals.areHeld = false;
    rest_.until = current_.block.number + (kShortestRest << rest_.exponent);
    rest_.exponent = std::min(rest_.exponent + 1, kMaxDoublings);
    return enter(Phase::resting);
  }
  examination_.challenger = modeOf(examination_.candidate, incumbent_, options_);
  const bool needsResiduals =
      options_.hasResiduals && examination_.challenger.sending == Sending::full;
  if (!needsResiduals || examination_.residuals.areHeld) return challenge();
  enter(Phase::asking);
}

Selector::Residuals Selector::residuals() const {
  Residuals residuals = examination_.residuals;
  residuals.isAsked = phase_ == Phase::asking;
  return residuals;
}

void Selector::answer(bool haveAll) {
  if (phase_ != Phase::asking) return;
  Residuals& residuals = examination_.residuals;
  if (haveAll) {
    if (!residuals.areHeld) residuals.first = residuals.question;
    residuals.last = residuals.question;
    residuals.areHeld = true;
  }
  const bool isBegun = examination_.candidate != UINT32_MAX;
  if (haveAll && isBegun)
    challenge();
  else
    tryNext();
}

void Selector::challenge() {
  if (examination_.candidate >= kSendings) evidence() = {};
  const Evidence& known = evidence();
  examination_.nRoundsLeft = known.nRounds < kMaxRounds ? kMaxRounds - known.nRounds : 1;
  const bool isKnownToBeNear =
      known.nRounds > 0 &&
      orientationOf(examination_.challenger, incumbent_) * known.ratios.mean() <= kFarSlower;
  enter(isKnownToBeNear ? Phase::comparing : Phase::probing);
}

bool Selector::isWorthTrying(uint32_t candidate) const {
  const bool isPlain = incumbent_.sending == Sending::plain;
  if (candidate >= kSendings)
    return !isPlain && !rest_.hasThresholds && options_.thresholds[candidate - kSendings] != 0;
  const auto sending = static_cast<Sending>(candidate);
  const bool hasStateless = options_.hasStateless && examination_.shape.mayBeStateless;
  if (sending == Sending::stateless && !hasStateless) return false;
  // Plain and stateless.
  const bool isFar = examination_.isStatelessFar || evidence_[0].ratios.mean() > kFarSlower;
  if (sending == Sending::full && isPlain && hasStateless && isFar) return false;
  return sending != incumbent_.sending;
}

// Of incumbent and challenger.
Selector::Evidence& Selector::evidence() {
  if (examination_.candidate >= kSendings) return evidence_[kSendings];
  const auto a = static_cast<size_t>(incumbent_.sending);
  const auto b = static_cast<size_t>(examination_.challenger.sending);
  return evidence_[a + b - 1];
}

// The challenger is the incumbent from here on.
void Selector::change() {
  ++summary_.nChanges;
  examination_.hasChanged = true;
  // What was found of other modes was found with other calls compressed.
  if (examination_.candidate >= kSendings) evidence_ = {};
  incumbent_ = examination_.challenger;
  level_ = {.scale = level_.scale};
  for (size_t i = 0; i < kBlockSamples; ++i)
    if (examination_.isOfChallenger[i]) addTo(level_.logs, examination_.round[i]);
}

// What is under way of the incumbent alone is cut short.
void Selector::enter(Phase phase) {
  phase_ = phase;
  // It is asked in a block of its own, so that no other question has this number.
  if (phase == Phase::asking) examination_.residuals.question = current_.block.number + 1;
  examination_.nPlaced = examination_.nReceived = 0;
  ++examination_.comparison;
  current_.isCut = true;
}

Selector::Summary Selector::summary() const {
  Summary summary = summary_;
  summary.mode = incumbent_;
  for (size_t i = 0; i < kSendings; ++i) {
    if (recent_[i].count() == 0) continue;
    summary.times[i] = valueOf(recent_[i].mean());
    const uint64_t ratio = valueOf(10 * kOctave + recent_[i].spread());
    summary.percentSd[i] = static_cast<uint32_t>((ratio - 1024) * 100 / 1024);
  }
  return summary;
}

}  // namespace cinch
