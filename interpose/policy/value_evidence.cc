#include "interpose/policy/value_evidence.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace cinch {
namespace {

// Fewer values that are not zero say nothing: a cosine of some ten values is an accident.
constexpr size_t kEnoughValues = 32;
// Longer runs of zeros on one rank alone are no accident of a batch. A tile of the codecs.
constexpr size_t kTile = 1024;
// Sums of 16-bit values are rounded to 8 bits.
constexpr float kRounding = 1.0f / 128;
// A count that was divided by the number of ranks and is multiplied by it again.
constexpr float kDivision = 1e-6f;

bool areFinite(const std::vector<float>& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

size_t nonZeros(const std::vector<float>& values) {
  return static_cast<size_t>(std::ranges::count_if(values, [](float value) { return value != 0; }));
}

// Whether their values are of the same places.
bool isComparable(const SampledCall& call, const SampledCall& other) {
  const size_t n = other.output.size();
  return call.output.size() == n && (call.input.size() == n || call.input.empty());
}

bool isMeasured(const std::vector<float>& values) {
  return areFinite(values) && nonZeros(values) >= kEnoughValues;
}

double cosineOf(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double x = a[i], y = b[i];
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

// Also where each rank has divided its counts by the number of ranks.
bool areIntegers(const std::vector<float>& values, int nRanks) {
  const auto areWhole = [&](float factor) {
    return std::ranges::all_of(values, [factor](float value) {
      const float scaled = value * factor;
      return std::fabs(scaled - std::nearbyint(scaled)) <= kDivision * std::fabs(scaled);
    });
  };
  return areWhole(1) || areWhole(static_cast<float>(nRanks));
}

// Whether the output is this rank's input wherever that is not zero, and whole tiles come from
// others. A gradient has zeros, too, such as the rows of an embedding whose tokens a batch lacks;
// but some rows are those of both.
bool isGatheredBySums(const SampledCall& call, size_t runLength) {
  const size_t tile = std::max<size_t>(std::min(kTile, runLength), 1);
  bool hasForeignTile = false;
  std::optional<float> factor;  // 1, or that of an average
  for (size_t first = 0; first < call.input.size(); first += tile) {
    const size_t end = std::min(first + tile, call.input.size());
    bool isOwnZero = true, isZero = true;
    for (size_t i = first; i < end; ++i) {
      const float own = call.input[i], result = call.output[i];
      isOwnZero = isOwnZero && own == 0;
      isZero = isZero && result == 0;
      if (own == 0) continue;
      if (!factor) factor = result / own;
      if (std::fabs(result - *factor * own) > kRounding * std::fabs(result)) return false;
    }
    hasForeignTile = hasForeignTile || (isOwnZero && !isZero);
  }
  return hasForeignTile && factor.has_value();
}

// The square of the noise at each place, as this rank knows it: what its inputs differ by from the
// mean of all. Empty where some input is not known.
std::vector<double> noiseOf(std::span<const SampledCall* const> calls) {
  std::vector<double> noise(calls.front()->output.size());
  for (const SampledCall* call : calls) {
    if (!isMeasured(call->input)) return {};
    double common = 0, square = 0;
    for (size_t i = 0; i < noise.size(); ++i) {
      const double own = call->input[i], result = call->output[i];
      common += own * result;
      square += result * result;
    }
    if (common <= 0) return {};
    const double nSummed = square / common;  // 1 of an average, the number of ranks of a sum
    for (size_t i = 0; i < noise.size(); ++i) {
      const double difference = call->input[i] - call->output[i] / nSummed;
      noise[i] += difference * difference;
    }
  }
  return noise;
}

// Each place counts alike, or the few with the most noise would hide what the rest does.
bool areAccumulating(std::span<const SampledCall* const> calls) {
  if (calls.size() < 3) return false;
  const std::vector<double> noise = noiseOf(calls);
  if (noise.empty()) return false;
  std::vector<double> sorted = noise;
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  const double mean =
      std::accumulate(noise.begin(), noise.end(), 0.0) / static_cast<double>(noise.size());
  const double least = *middle / 10 + mean / 1000;
  if (least <= 0) return false;
  double common = 0, last = 0, before = 0;
  for (size_t i = 0; i < noise.size(); ++i) {
    const double now = calls[2]->output[i] - double{calls[1]->output[i]};
    const double then = calls[1]->output[i] - double{calls[0]->output[i]};
    const double weight = 1 / (noise[i] + least);
    common += weight * now * then;
    last += weight * now * now;
    before += weight * then * then;
  }
  return last > 0 && before > 0 && common > kAccumulating * std::sqrt(last * before);
}

}  // namespace

ValueVerdict judgeValues(std::span<const SampledCall> calls, const SampledRuns& runs, int nRanks,
                         const Vetoes& vetoes) {
  std::vector<const SampledCall*> measured;
  for (const SampledCall& call : calls) {
    if (!isComparable(call, calls.back()) || !isMeasured(call.output)) continue;
    if (vetoes.gatheredBySums && isGatheredBySums(call, runs.runLength))
      return ValueVerdict::gatheredBySums;
    const bool hasInput = isMeasured(call.input);
    if (vetoes.integers && hasInput && areIntegers(call.input, nRanks))
      return ValueVerdict::integers;
    const auto areAlike = [&](const std::vector<float>& values) {
      return vetoes.alike && cosineOf(values, call.output) >= kAlike;
    };
    if (hasInput && areAlike(call.input)) return ValueVerdict::alike;
    if (!measured.empty() && areAlike(measured.back()->output)) return ValueVerdict::alike;
    measured.push_back(&call);
  }
  if (measured.size() < 2) return ValueVerdict::tooFew;
  const bool accumulates = vetoes.accumulating && areAccumulating(measured);
  return accumulates ? ValueVerdict::accumulating : ValueVerdict::unsuspicious;
}

}  // namespace cinch
