#include "interpose/policy/value_evidence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
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

bool areOfOneSign(const std::vector<float>& values) {
  const auto isPositive = [](float value) { return value > 0; };
  const auto isNegative = [](float value) { return value < 0; };
  return std::ranges::none_of(values, isPositive) || std::ranges::none_of(values, isNegative);
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

double productOf(const std::vector<float>& a, const std::vector<float>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                            [](double x, double y) { return x * y; });
}

double squareOfDifference(const std::vector<float>& a, const std::vector<float>& b, double scale) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                            [scale](double x, double y) {
                              const double difference = x - scale * y;
                              return difference * difference;
                            });
}

// What the inputs of a call are in its output: 1 where that is an average, 1 / n where it is a sum.
double scaleOf(const SampledCall& call, double n) {
  const double scale = productOf(call.input, call.output) / productOf(call.output, call.output);
  return scale < 1 / std::sqrt(n) ? 1 / n : 1;
}

// Each rank gives a mean that is common to all ranks and steps, and noise of its own, of whose
// square an n-th is left in the average of n ranks. Successive averages have the mean in common;
// the noise is what they differ by, and what a rank differs by from an average. Of what grows from
// step to step this says nothing.
bool areSteady(const SampledCall& before, const SampledCall& call, double n) {
  const double power = productOf(before.output, before.output);
  if (productOf(call.output, call.output) > kMostGrowth * power) return true;
  const double common = std::max(productOf(before.output, call.output), 0.0);
  const auto isLittle = [common](double noise) {
    return noise <= kLeastNoise * kLeastNoise * common;
  };
  if (isLittle(squareOfDifference(before.output, call.output, 1) * n / 2)) return true;
  return std::ranges::any_of(std::array{&before, &call}, [&](const SampledCall* one) {
    if (!isMeasured(one->input)) return false;
    const double scale = scaleOf(*one, n);
    const double noise = squareOfDifference(one->input, one->output, scale) * n / (n - 1);
    return isLittle(noise / (scale * scale));
  });
}

}  // namespace

ValueVerdict judgeValues(std::span<const SampledCall> calls, const SampledRuns& runs, int nRanks,
                         const Vetoes& vetoes) {
  std::vector<const SampledCall*> measured;
  bool isOfOneSign = false;
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
    isOfOneSign = isOfOneSign || (hasInput && areOfOneSign(call.input));
    if (!measured.empty() && areAlike(measured.back()->output)) return ValueVerdict::alike;
    measured.push_back(&call);
  }
  if (measured.size() < 2) return ValueVerdict::tooFew;
  if (vetoes.ofOneSign && isOfOneSign) return ValueVerdict::ofOneSign;
  const auto areSteadyThen = [nRanks](const SampledCall* before, const SampledCall* call) {
    return areSteady(*before, *call, nRanks);
  };
  const bool steady =
      vetoes.steady && std::ranges::adjacent_find(measured, areSteadyThen) != measured.end();
  return steady ? ValueVerdict::steady : ValueVerdict::unsuspicious;
}

GatherVerdict judgeGather(std::span<const SampledCall> calls) {
  bool areAlike = calls.size() > 1, areDifferent = areAlike;
  for (size_t i = 1; i < calls.size(); ++i) {
    const std::vector<float>&before = calls[i - 1].output, &now = calls[i].output;
    if (before.size() != now.size() || !isMeasured(before) || !isMeasured(now))
      return GatherVerdict::unknown;
    const double cosine = cosineOf(before, now);
    areAlike = areAlike && cosine >= kAlike;
    areDifferent = areDifferent && cosine < kDifferent;
  }
  return areAlike       ? GatherVerdict::alike
         : areDifferent ? GatherVerdict::different
                        : GatherVerdict::unknown;
}

}  // namespace cinch
