#include "interpose/policy/value_evidence.h"

#include <algorithm>
#include <cmath>
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

}  // namespace

ValueVerdict judgeValues(std::span<const SampledCall> calls, const SampledRuns& runs, int nRanks,
                         const Vetoes& vetoes) {
  size_t nMeasured = 0;
  const SampledCall* before = nullptr;
  for (const SampledCall& call : calls) {
    if (!isMeasured(call.output)) continue;
    ++nMeasured;
    if (vetoes.gatheredBySums && isGatheredBySums(call, runs.runLength))
      return ValueVerdict::gatheredBySums;
    const bool hasInput = isMeasured(call.input);
    if (vetoes.integers && hasInput && areIntegers(call.input, nRanks))
      return ValueVerdict::integers;
    const auto areAlike = [&](const std::vector<float>& values) {
      return vetoes.alike && cosineOf(values, call.output) >= kAlike;
    };
    if (hasInput && areAlike(call.input)) return ValueVerdict::alike;
    if (before != nullptr && areAlike(before->output)) return ValueVerdict::alike;
    before = &call;
  }
  return nMeasured >= 2 ? ValueVerdict::unsuspicious : ValueVerdict::tooFew;
}

}  // namespace cinch
