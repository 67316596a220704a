#include "interpose/policy/strategy.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

namespace cinch {
namespace {

// Rounds between two trials that nothing gave cause for, where all were equally fast.
constexpr uint64_t kRest = 64;
constexpr uint64_t kRestTime = 200'000'000;  // ns, which they last at least
constexpr uint32_t kMostAlike = 3;           // times that it doubles
// Rounds after a trial in which what it found may not have taken effect.
constexpr uint64_t kShortRest = 2;
constexpr uint32_t kMostInVain = 5;  // doublings

constexpr uint64_t kPoolTime = 20'000'000, kPoolTimeOfShort = 100'000'000;  // ns
constexpr uint64_t kMostRoundsToAPool = 64;
constexpr uint64_t kWatchedRounds = 8;       // after a trial, which are all pooled
constexpr size_t kEnoughWatched = 5;         // of them
constexpr uint64_t kShortRound = 7'000'000;  // ns
// Of the program's pace, what the least of the calls' times is where it does little else, and what
// it never is: a program that is far ahead of its device takes no time for a round.
constexpr uint64_t kTightPercent = 60, kAheadPercent = 133;
// Of the first trial, in which connections warm up and ranks get ready, not even so much is
// certain.
constexpr uint64_t kFirstPercent = 200;

// Rounds after a trial in which a store that it had found full is used up.
constexpr uint64_t kDoubtRounds = 16;
constexpr uint64_t kFloorPercent = 95;  // of a floor that is left with every series

// Trials whose results are close follow one another up to this many; so many where they are very
// close, and nothing is settled on or something else would be: that costs next to nothing.
constexpr uint32_t kLongestSeries = 3, kLongestCloseSeries = 8;
constexpr uint32_t kTrialsInAWhole = 2;  // that one of whole rounds is worth
constexpr uint32_t kTrialsInALong = 4;   // the same of calls that vary less
constexpr size_t kEnoughSamples = 3;     // in a series, to leave a strategy out of the rest of it
constexpr uint64_t kClosePercent = 150, kVeryClosePercent = 125;

// What another strategy has to gain over what is done; and plain calls, which users have without
// us: where they are as fast, they are done.
constexpr uint64_t kMarginPercent = 105, kPlainMarginPercent = 101;
// What others have to gain over plain calls to be begun, and to go on: noise of short calls is as
// large, and what such a call costs a program beside its own time is not measured.
constexpr uint64_t kGainToBegin = 8'000, kGainToGoOn = 4'000;  // ns

constexpr uint64_t percentOf(uint64_t value, uint64_t percent) {
  return value / 100 * percent + value % 100 * percent / 100;
}

// The lower or the upper one of two; 0 of none.
uint64_t medianOf(std::vector<uint64_t> samples, bool isUpper = false) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  return samples[(samples.size() - (isUpper ? 0 : 1)) / 2];
}

// 0 of none.
uint64_t upperQuartileOf(std::vector<uint64_t> samples) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  return samples[3 * samples.size() / 4];
}

// One is more than `percent` of the other.
bool isFurtherApart(uint64_t a, uint64_t b, uint64_t percent) {
  return std::max(a, b) > percentOf(std::min(a, b), percent);
}

}  // namespace

Strategy StrategyChooser::tried(uint64_t turn) const {
  constexpr Strategy p = Strategy::pass, c = Strategy::compress, q = Strategy::quick;
  constexpr std::array<Strategy, kRound> firstOfTwo = {p, p, p, c, c, c, c, c};
  constexpr std::array<Strategy, kRound> firstOfThree = {p, p, p, c, c, c, q, q};
  constexpr std::array<Strategy, kRound> ofTwo = {c, c, c, c, c, p, p, p};
  constexpr std::array<Strategy, kRound> ofThree = {c, c, c, p, p, p, q, q};
  constexpr std::array<Strategy, kRound> compressed = {c, c, c, c, q, q, q, q};
  const uint64_t i = turn % kRound;
  if (turn < kRound) return (mayBeQuick_ ? firstOfThree : firstOfTwo)[i];
  if (mayBeQuick_ && !modeOf(turn / kRound).triesPlain) return compressed[i];
  return (mayBeQuick_ ? ofThree : ofTwo)[i];
}

bool StrategyChooser::followsItsLike(uint64_t turn) const {
  return turn % kRound != 0 && tried(turn) == tried(turn - 1);
}

Strategy StrategyChooser::at(uint64_t turn) const {
  const Mode& mode = modeOf(turn / kRound);
  return mode.isTrial && !mode.isWhole ? tried(turn) : mode.strategy;
}

void StrategyChooser::dropQuick() {
  if (!mayBeQuick_) return;
  mayBeQuick_ = false;
  times_[static_cast<size_t>(Strategy::quick)] = 0;
  if (choice_ == Strategy::quick) {
    level_ = 0;
    nDrifts_ = 0;
  }
  const uint64_t plain = time(Strategy::pass);
  const bool isPlainFaster = plain != 0 && plain < time(Strategy::compress);
  const Strategy other = isPlainFaster ? Strategy::pass : Strategy::compress;
  const auto drop = [other](Strategy& strategy) {
    if (strategy == Strategy::quick) strategy = other;
  };
  drop(choice_);
  drop(beforeSeries_);
  for (Mode& mode : modes_) drop(mode.strategy);
  for (Part& part : parts_.all) drop(part.strategy);
}

bool StrategyChooser::isTimed(uint64_t turn) const {
  const Mode& mode = modeOf(turn / kRound);
  if (mode.isWhole) return turn % 2 == 1 && turn % kRound > 1;
  if (mode.isTrial) return turn == 0 || followsItsLike(turn);
  return mode.isPooled && turn % 2 == 1;
}

void StrategyChooser::note(uint64_t turn, Strategy done, bool isTypical) {
  turns_[turn % turns_.size()] = {done, isTypical};
}

void StrategyChooser::Found::add(const Found& more) {
  for (size_t i = 0; i < kStrategies; ++i) {
    calls[i].insert(calls[i].end(), more.calls[i].begin(), more.calls[i].end());
    paces[i].insert(paces[i].end(), more.paces[i].begin(), more.paces[i].end());
  }
}

bool StrategyChooser::isAllAlike(uint64_t round) const {
  const Turn& first = turns_[round * kRound % turns_.size()];
  for (uint64_t i = 0; i < kRound; ++i) {
    const Turn& turn = turns_[(round * kRound + i) % turns_.size()];
    if (turn.done != first.done || !turn.isTypical) return false;
  }
  return true;
}

StrategyChooser::Found StrategyChooser::foundIn(uint64_t round,
                                                std::span<const uint64_t> least) const {
  Found found;
  for (uint64_t i = 0; i < least.size() && i < kRound; ++i) {
    const Turn& turn = turns_[(round * kRound + i) % turns_.size()];
    if (turn.isTypical && least[i] != kNotTimed)
      found.calls[static_cast<size_t>(turn.done)].push_back(std::max<uint64_t>(least[i], 1));
  }
  if (least.size() != kFigures || least.back() == kNotTimed || !isAllAlike(round)) return found;
  const auto done = static_cast<size_t>(turns_[round * kRound % turns_.size()].done);
  const uint64_t call = medianOf(found.calls[done]), pace = least.back() / kRound;
  if (pace > 0 && call >= percentOf(pace, kTightPercent) && call <= percentOf(pace, kAheadPercent))
    found.paces[done].push_back(pace);
  return found;
}

// The calls of a series can be told by the program's pace, all or none.
bool StrategyChooser::isTight() const {
  bool isAny = false;
  for (size_t i = 0; i < kStrategies; ++i) {
    if (!series_.calls[i].empty() && series_.paces[i].empty()) return false;
    isAny = isAny || !series_.paces[i].empty();
  }
  return isAny;
}

// By the pace where there is one, and trials went by it.
StrategyChooser::Done StrategyChooser::doneIn(const Found& found) const {
  const auto i = static_cast<size_t>(choice_);
  const bool isByPace = isTight() && !found.paces[i].empty();
  return {medianOf(isByPace ? found.paces[i] : found.calls[i]), isByPace == isTight()};
}

// A rank's host was far ahead of another's, which may be how the program is.
void StrategyChooser::noteFailure(uint64_t round) {
  rest_ = std::min(2 * rest_, kRest);
  quietUntil_ = round + 1 + rest_;
}

// Nobody's calls had ended that were to be timed; of a trial, not all strategies'.
bool StrategyChooser::wasTooEarly(uint64_t round, std::span<const uint64_t> least,
                                  const Found& found) const {
  bool isAny = false, isLast = true;
  for (uint64_t i = 0; i < least.size() && i < kRound; ++i) {
    if (!isTimed(round * kRound + i)) continue;
    isLast = least[i] != kNotTimed;
    isAny = isAny || isLast;
  }
  const bool isLost = modeOf(round).isTrial && !isATrials(round, found);
  return !isLast && (!isAny || isLost);
}

void StrategyChooser::hear(uint64_t round, std::span<const uint64_t> least) {
  const uint64_t next = round + delay_;
  const bool isLate = isPooled(round) && least.empty();
  if (isPooled(round) && !isLate) rest_ = 1;
  if (least.size() == kFigures && least.back() != kNotTimed) period_ = least.back();
  const Found found = foundIn(round, least);
  if ((isLate || wasTooEarly(round, least, found)) && delay_ < kLongestDelay) {
    delay_ *= 2;
    if (!hasChosen_) lastTrial_ = 0;  // it is lost, and the next one need not wait
  } else if (isLate) {
    noteFailure(round);
  }
  const Done done = doneIn(found);
  bool tries = std::exchange(isPutOff_, false);
  if (isATrials(round, found)) {
    lastTrial_ = round;
    if (completesATrial(round, found)) {
      const Strategy before = choice_;
      tries = conclude(std::exchange(parts_, {}).found, modeOf(round).isWhole);
      // What is new is done before it is tried again: after a change of the link that cannot wait.
      isPutOff_ = tries && choice_ != before;
      tries = tries && !isPutOff_;
    }
  } else {
    // What a trial that was lost would have been held against is old by the time of the next.
    if (modeOf(round).isTrial) {
      nInSeries_ = 0;
      parts_ = {};
    }
    if (done.time != 0 && isWorthATrial(round, done)) tries = true;
  }
  // One that is still to come, or not yet heard, is enough.
  tries = tries && parts_.all.empty();
  for (uint64_t earlier = round + 1; earlier < next; ++earlier)
    tries = tries && !modeOf(earlier).isTrial;
  const uint64_t last = round + delay_;
  if (tries) lastTrial_ = last;
  for (uint64_t mode = next; mode <= last; ++mode) {
    const bool begins = tries && mode == last;
    if (begins && (isShort(done.time) || isCloseToPlain())) beginParts();
    setMode(mode, begins || !arePlaced());
  }
}

void StrategyChooser::setMode(uint64_t round, bool isTrial) {
  const bool isPart = isTrial && !arePlaced();
  if (isTrial) lastTrial_ = round;
  const Part part = isPart ? parts_.all[parts_.nPlaced++] : Part{choice_, false};
  const bool counts = isTrial && !part.isLead;
  const bool isPooled = counts || (!isTrial && (isWatched(round) || round % roundsToAPool() == 0));
  modes_[round % kRoundsKept] = {counts, mayPass(), isPooled, part.strategy, isPart && counts};
}

// After a trial. Where rounds are fast, none follows one that is pooled, which takes longer.
bool StrategyChooser::isWatched(uint64_t round) const {
  const uint64_t since = round - lastTrial_;
  return since <= watchedRounds() && (!isFast() || since % 2 == 0);
}

uint64_t StrategyChooser::watchedRounds() const {
  return (isFast() ? 2 * kWatchedRounds : kWatchedRounds) + lateness();
}

// Takes a device and a connection that were idle some calls to be as fast as they can be; and a
// link's store may last for some. Of a program that does more than call, a round is enough.
void StrategyChooser::beginParts() {
  parts_ = {};
  for (const Strategy each : {Strategy::compress, Strategy::pass, Strategy::quick}) {
    if (!isWorthAPart(each)) continue;
    if (isFast()) parts_.all.push_back({each, true});
    parts_.all.push_back({each, false});
  }
}

// What a series has found to be far slower is left out of its other trials.
bool StrategyChooser::isWorthAPart(Strategy strategy) const {
  if (strategy == Strategy::quick && !mayBeQuick_) return false;
  const bool isWellKnown = series_.calls[static_cast<size_t>(strategy)].size() >= kEnoughSamples;
  if (nInSeries_ == 0 || strategy == choice_ || !isWellKnown) return true;
  uint64_t fastest = UINT64_MAX;
  for (const uint64_t time : times_)
    if (time != 0) fastest = std::min(fastest, time);
  return time(strategy) <= percentOf(fastest, kVeryClosePercent);
}

// A series is between plain calls and others.
bool StrategyChooser::isCloseToPlain() const {
  if (nInSeries_ == 0) return false;
  if (choice_ == Strategy::pass) return isWithin(kVeryClosePercent);
  const uint64_t plain = time(Strategy::pass);
  return plain != 0 && !isFurtherApart(plain, time(choice_), kVeryClosePercent);
}

// Keeps what was found, with that of a trial's other rounds.
bool StrategyChooser::completesATrial(uint64_t round, const Found& found) {
  const bool isWhole = modeOf(round).isWhole;
  if (isWhole && parts_.all.empty()) return false;  // another part was lost
  parts_.found.add(found);
  const auto counts = [](const Part& part) { return !part.isLead; };
  const auto nParts = static_cast<size_t>(std::ranges::count_if(parts_.all, counts));
  return !isWhole || ++parts_.nHeard == nParts;
}

bool StrategyChooser::isATrials(uint64_t round, const Found& found) const {
  const Mode& mode = modeOf(round);
  if (mode.isWhole) return !found.calls[static_cast<size_t>(mode.strategy)].empty();
  const Strategy other = mode.triesPlain ? Strategy::pass : Strategy::quick;
  return !found.calls[static_cast<size_t>(Strategy::compress)].empty() &&
         !found.calls[static_cast<size_t>(other)].empty();
}

// Not where a series goes on between the others, and plain calls are far slower.
bool StrategyChooser::mayPass() const {
  return nInSeries_ == 0 || !isFurtherApart(time(Strategy::pass), time(choice_), kClosePercent);
}

// A pool takes some threads' attention on every host, which a program with little else to do than
// short calls would notice. With two rounds from one pool to the next, which are those of calls of
// a millisecond, a change is followed within 50 turns.
uint64_t StrategyChooser::roundsToAPool() const {
  const uint64_t round = roundTime();
  if (round == 0) return 1;
  const uint64_t time = isFast() ? kPoolTimeOfShort : kPoolTime;
  return std::clamp<uint64_t>(time / round, 1, kMostRoundsToAPool);
}

// 0: not known.
uint64_t StrategyChooser::roundTime() const {
  return std::max(period_, time(choice_) * kRound);
}

bool StrategyChooser::isFast() const {
  const uint64_t round = roundTime();
  return round != 0 && round < kShortRound;
}

// `time` was lately found. Not where a plain call takes as long as a round of short ones: for no
// noise of theirs is a round of plain calls to be spent.
bool StrategyChooser::isShort(uint64_t time) const {
  const uint64_t slower = std::max(time, this->time(choice_));
  return slower != 0 && slower * kRound < kShortRound && this->time(Strategy::pass) < kShortRound;
}

// Of the first trial: plain calls may be the fastest, though they took longer. Until a second one
// is heard there may be a hundred of them.
bool StrategyChooser::saysLittle() const {
  const uint64_t other = time(choice_), plain = time(Strategy::pass);
  return other < plain && (isShort(other) || !isFurtherApart(other, plain, kFirstPercent));
}

// What a strategy took in the trials of a series. A link lets more through at once after a pause,
// which one call may have had, or after calls that sent less, which whole rounds have behind them:
// quick calls, which send more than compressed ones, have to be faster without it.
uint64_t StrategyChooser::timeInSeries(Strategy strategy) const {
  const auto i = static_cast<size_t>(strategy);
  const bool isQuick = strategy == Strategy::quick;
  if (series_.calls[i].empty() || (isQuick && !mayBeQuick_)) return 0;
  if (!isTight()) return std::max(medianOf(series_.calls[i], isQuick), floors_[i]);
  return std::max(isQuick ? upperQuartileOf(series_.paces[i]) : medianOf(series_.paces[i]),
                  floors_[i]);
}

// True where another trial is to follow at once.
bool StrategyChooser::conclude(const Found& found, bool isWhole) {
  if (nInSeries_ == 0) {
    series_ = {};
    beforeSeries_ = choice_;
    for (uint64_t& floor : floors_) floor = percentOf(floor, kFloorPercent);
  }
  series_.add(found);
  for (size_t i = 0; i < kStrategies; ++i) times_[i] = timeInSeries(static_cast<Strategy>(i));
  ++nTrials_;
  choose();
  watched_.clear();
  level_ = 0;
  nDrifts_ = 0;
  nLarge_ = 0;
  if (nTrials_ == 1 && saysLittle()) {
    // As if it had not been.
    choice_ = Strategy::pass;
    hasChosen_ = false;
    return true;
  }
  nInSeries_ += !isWhole ? 1 : isShort(0) ? kTrialsInAWhole : kTrialsInALong;
  if (!isUnsure()) nInSeries_ = 0;
  if (nInSeries_ > 0) {
    // What was settled on is done until the series is over.
    if (isSettled_) choice_ = beforeSeries_;
    return true;
  }
  isSettled_ = true;
  ++nSeries_;
  const bool isAlike = choice_ == beforeSeries_;
  nInVain_ = isAlike ? std::min(nInVain_ + 1, kMostInVain) : 0;
  nAlike_ = isAlike ? std::min(nAlike_ + 1, kMostAlike) : 0;
  return false;
}

bool StrategyChooser::isUnsure() const {
  if (nInSeries_ >= kLongestSeries) {
    const bool mayChange = !isSettled_ || choice_ != beforeSeries_;
    return mayChange && nInSeries_ < kLongestCloseSeries && isWithin(kVeryClosePercent);
  }
  const bool isNew = choice_ == Strategy::quick && beforeSeries_ != Strategy::quick;
  const std::vector<uint64_t>& quick = series_.calls[static_cast<size_t>(Strategy::quick)];
  const bool isOdd = quick.size() == 2 && isFurtherApart(quick[0], quick[1], 200);
  return isWithin(kClosePercent) || isOdd || (isNew && quick.size() < 2);
}

// Than what is done, which takes `time`.
bool StrategyChooser::isClearlyFaster(Strategy other, uint64_t time) const {
  const uint64_t found = this->time(other);
  const bool isPlain = other == Strategy::pass;
  const uint64_t toGain = choice_ == Strategy::pass ? kGainToBegin : 0;
  const uint64_t allowed = isPlain ? kGainToGoOn : 0;
  const uint64_t percent = isPlain ? kPlainMarginPercent : kMarginPercent;
  return found != 0 && std::max(percentOf(found, percent), found + toGain) < time + allowed;
}

// What is done goes on unless another one is clearly faster; at first that is to pass.
void StrategyChooser::choose() {
  if (!hasChosen_) choice_ = Strategy::pass;
  hasChosen_ = true;
  // What no trial has shown cannot be compared.
  if (time(choice_) == 0) return;
  Strategy best = choice_;
  for (const Strategy each : {Strategy::pass, Strategy::compress, Strategy::quick})
    if (each != choice_ && isClearlyFaster(each, time(choice_)) &&
        (best == choice_ || time(each) < time(best)))
      best = each;
  choice_ = best;
}

// Another one takes as long, but for so much.
bool StrategyChooser::isWithin(uint64_t percent) const {
  for (size_t i = 0; i < kStrategies; ++i)
    if (i != static_cast<size_t>(choice_) && times_[i] != 0 &&
        !isFurtherApart(times_[i], time(choice_), percent))
      return true;
  return false;
}

// A link that had been idle lets the few calls of a trial through at once, as large as its store
// is, and holds up those that follow.
bool StrategyChooser::isDoubtful(uint64_t since, uint64_t time) const {
  const uint64_t tried = this->time(choice_);
  return since <= kDoubtRounds + lateness() && tried != 0 && time > percentOf(tried, 200);
}

// So slow are the rounds after a trial that by it another strategy is faster: its calls, too, may
// have had the link's store.
bool StrategyChooser::isOvertaken(uint64_t since, uint64_t time) {
  if (since <= kShortRest || since > watchedRounds()) return false;
  watched_.push_back(time);
  if (watched_.size() != kEnoughWatched) return false;
  const uint64_t usual = medianOf(watched_);
  for (const Strategy each : {Strategy::pass, Strategy::compress, Strategy::quick})
    if (each != choice_ && isClearlyFaster(each, usual)) return true;
  nDoubts_[static_cast<size_t>(choice_)] = 0;
  return false;
}

// Once may be chance. Again, trials of it are not to be believed: what is sent beside them lets the
// link save up for the next one.
void StrategyChooser::noteDoubt(uint64_t time) {
  const auto i = static_cast<size_t>(choice_);
  if (nDoubts_[i]++ > 0) floors_[i] = time;
  isSettled_ = false;
}

// What was doubted of a link that has changed is over.
bool StrategyChooser::hasDrifted(bool isSo) {
  if (isSo) {
    nDoubts_ = {};
    floors_ = {};
    nAlike_ = 0;
  }
  return isSo;
}

// A large drift is looked into at once; a small one when it lasts, and not too often. Where trials
// keep changing nothing, it is noise: each is twice as far from the last, until there was a rest,
// or unless the drift stays where it is.
bool StrategyChooser::isWorthATrial(uint64_t round, const Done& done) {
  const uint64_t time = done.time;
  const uint64_t since = round - std::min(round, lastTrial_);
  // After one that said little, plain calls are done, which may be far slower than others.
  if (!hasChosen_) return lastTrial_ == 0 || since > (nTrials_ > 0 ? kRound + delay_ : kRest);
  // Of a round in which the program paused only what is far off says something.
  if (!done.isComparable && (level_ == 0 || !isFurtherApart(time, level_, 200)))
    return since > restBetweenTrials();
  if (level_ == 0) level_ = time;
  if (since > kRest) nInVain_ = 0;
  const uint64_t patience = kShortRest << nInVain_;
  const int large = !isFurtherApart(time, level_, 200) ? 0 : time > level_ ? 1 : -1;
  nLarge_ = large == 0 ? 0 : large * nLarge_ > 0 ? nLarge_ + large : large;
  const bool isSoon = since <= (std::abs(nLarge_) >= 2 ? kShortRest : patience);
  if (!isSoon && isDoubtful(since, time)) {
    noteDoubt(time);
    return true;
  }
  if (isOvertaken(since, time)) {
    noteDoubt(medianOf(watched_));
    return true;
  }
  if (large != 0) {
    const bool isSo = hasDrifted(!isSoon);
    isSettled_ = isSettled_ && !isSo;
    return isSo;
  }
  nDrifts_ = isFurtherApart(time, level_, 120) ? nDrifts_ + 1 : 0;
  const uint64_t rest = restBetweenTrials();
  return since > rest || hasDrifted(nDrifts_ >= 2 && since > std::max(rest / 8, patience));
}

// Much of a trial's turns do what was slower, and its pools cost, too: so seldom that it costs a
// hundredth at most. But plain calls that were the first of all may have been slow for that.
uint64_t StrategyChooser::restBetweenTrials() const {
  uint64_t slow = 1, fast = UINT64_MAX;
  for (const uint64_t time : times_) {
    if (time == 0) continue;
    slow = std::max(slow, time);
    fast = std::min(fast, time);
  }
  // What was slower is done for two rounds, for one, or for half of one.
  const uint64_t perTrial = isShort(0) ? (isFast() ? 200 : 100) : 50;
  const uint64_t mostRatio = nSeries_ > 1 ? 1000 : 1;
  const uint64_t ratio = std::min(slow / std::min(fast, slow), mostRatio);
  const uint64_t rest = std::max(kRest, ratio * perTrial);
  return std::max(rest, (kRestTime << nAlike_) / std::max<uint64_t>(roundTime(), 1));
}

}  // namespace cinch
