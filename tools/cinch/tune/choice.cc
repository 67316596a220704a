#include "tools/cinch/tune/choice.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace cinch::tune {
namespace {

// A difference that nobody would feel is none, however steady.
constexpr double kLeastGain = 0.03;
// With forty combinations that are all alike, and three rounds, so that chance picks one for less
// than one size in a hundred (choice_test).
constexpr double kNoiseShare = 1.5;

struct Trial {
  double own;
  double candidate;
};

// What was measured of one size.
struct Samples {
  std::vector<double> own;
  std::vector<std::pair<Combination, std::vector<Trial>>> candidates;

  std::vector<Trial>& trialsOf(const Combination& combination) {
    const auto found =
        std::find_if(candidates.begin(), candidates.end(),
                     [&](const auto& candidate) { return candidate.first == combination; });
    if (found != candidates.end()) return found->second;
    return candidates.emplace_back(combination, std::vector<Trial>()).second;
  }
};

// Between the values, where there is no value at `share`.
double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
}

double median(const std::vector<double>& values) {
  return quantile(values, 0.5);
}

// Half of what lies between the tenth and the ninetieth of a hundred.
double noiseOf(const std::vector<double>& values) {
  const double middle = median(values);
  return middle > 0 ? (quantile(values, 0.9) - quantile(values, 0.1)) / 2 / middle : 0;
}

// Of many combinations one is lucky once; none is lucky every time, by more than the noise.
bool isBetter(const std::vector<Trial>& trials, double margin) {
  return trials.size() >= 2 && std::all_of(trials.begin(), trials.end(), [&](const Trial& trial) {
           return trial.candidate < trial.own * (1 - margin);
         });
}

void addOwn(const PairResult& result, std::map<uint64_t, Samples>& samplesBySize) {
  for (const Timing& own : result.own->timings)
    samplesBySize[own.nBytes].own.push_back(own.microseconds);
}

void addTrials(const Pair& pair, const PairResult& result,
               std::map<uint64_t, Samples>& samplesBySize) {
  for (const Timing& own : result.own->timings)
    for (const Timing& candidate : result.candidate->timings)
      if (own.nBytes == candidate.nBytes)
        samplesBySize[own.nBytes]
            .trialsOf(pair.combination)
            .push_back({own.microseconds, candidate.microseconds});
}

Verdict verdictOf(TunedCollective collective, uint64_t nBytes, const Samples& samples) {
  Verdict verdict{collective, nBytes, median(samples.own), noiseOf(samples.own), {}, 0};
  const double margin = std::max(kLeastGain, kNoiseShare * verdict.noise);
  for (const auto& [combination, trials] : samples.candidates) {
    if (!isBetter(trials, margin)) continue;
    std::vector<double> times;
    for (const Trial& trial : trials) times.push_back(trial.candidate);
    const double time = median(times);
    if (verdict.choice && time >= verdict.chosen) continue;
    verdict.choice = combination;
    verdict.chosen = time;
  }
  return verdict;
}

uint64_t between(uint64_t smaller, uint64_t larger) {
  return static_cast<uint64_t>(std::sqrt(static_cast<double>(smaller)) *
                               std::sqrt(static_cast<double>(larger)));
}

tuner::Rule ruleOf(const Verdict& verdict, int nRanks, int nNodes) {
  tuner::Rule rule{verdict.collective, verdict.nBytes, verdict.nBytes, verdict.choice->algorithm,
                   verdict.choice->protocol};
  if (verdict.choice->channels != 0) rule.channels = verdict.choice->channels;
  rule.nRanks = nRanks;
  rule.nNodes = nNodes;
  return rule;
}

}  // namespace

bool wasRefused(std::span<const Pair> pairs, std::span<const PairResult> results,
                const Pair& pair) {
  for (size_t i = 0; i < std::min(pairs.size(), results.size()); ++i)
    if (pairs[i].collective == pair.collective && pairs[i].combination == pair.combination &&
        !results[i].candidate)
      return true;
  return false;
}

std::vector<Verdict> judge(std::span<const Pair> pairs, std::span<const PairResult> results) {
  std::map<TunedCollective, std::map<uint64_t, Samples>> samples;
  for (size_t i = 0; i < std::min(pairs.size(), results.size()); ++i) {
    if (!results[i].own) continue;
    auto& bySize = samples[tunedCollective(pairs[i].collective)];
    addOwn(results[i], bySize);
    if (!wasRefused(pairs, results, pairs[i])) addTrials(pairs[i], results[i], bySize);
  }
  std::vector<Verdict> verdicts;
  for (const auto& [collective, bySize] : samples)
    for (const auto& [nBytes, ofSize] : bySize)
      verdicts.push_back(verdictOf(collective, nBytes, ofSize));
  return verdicts;
}

std::vector<tuner::Rule> rulesOf(std::span<const Verdict> verdicts, int nRanks, int nNodes) {
  std::vector<tuner::Rule> rules;
  const Verdict* previous = nullptr;
  for (const Verdict& verdict : verdicts) {
    const bool isNext = previous != nullptr && previous->collective == verdict.collective;
    const uint64_t border = isNext ? between(previous->nBytes, verdict.nBytes) : 0;
    const bool continues = isNext && previous->choice == verdict.choice;
    if (isNext && previous->choice) rules.back().maxBytes = continues ? verdict.nBytes : border;
    if (verdict.choice && !continues) {
      rules.push_back(ruleOf(verdict, nRanks, nNodes));
      if (isNext) rules.back().minBytes = border + 1;
    }
    previous = &verdict;
  }
  return rules;
}

}  // namespace cinch::tune
