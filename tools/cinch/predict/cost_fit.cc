#include "tools/cinch/predict/cost_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace cinch {
namespace {

double costSeconds(const CostSample& sample) {
  return sample.seconds - sample.knownSeconds;
}

double deviation(const LinearCost& cost, std::span<const CostSample> samples) {
  double sum = 0;
  for (const CostSample& sample : samples)
    sum += std::abs(cost.of(sample.nBytes) - costSeconds(sample)) / sample.seconds;
  return sum;
}

// Without a price for bytes, or without one for calls.
void addBounded(const CostSample& sample, std::vector<LinearCost>& lines) {
  const double seconds = std::max(costSeconds(sample), 0.0);
  lines.push_back({seconds, 0});
  if (sample.nBytes > 0) lines.push_back({0, seconds / sample.nBytes});
}

void addThrough(const CostSample& a, const CostSample& b, std::vector<LinearCost>& lines) {
  if (a.nBytes == b.nBytes) return;
  const double slope = (costSeconds(b) - costSeconds(a)) / (b.nBytes - a.nBytes);
  const double fixed = costSeconds(a) - slope * a.nBytes;
  if (slope >= 0 && fixed >= 0) lines.push_back({fixed, slope});
}

}  // namespace

std::optional<LinearCost> fitLinear(std::span<const CostSample> samples) {
  std::vector<CostSample> usable;
  for (const CostSample& sample : samples)
    if (sample.seconds > 0 && sample.nBytes >= 0) usable.push_back(sample);
  if (usable.empty()) return std::nullopt;
  std::vector<LinearCost> lines;
  for (size_t i = 0; i < usable.size(); ++i) {
    addBounded(usable[i], lines);
    for (size_t other = 0; other < i; ++other) addThrough(usable[i], usable[other], lines);
  }
  return *std::min_element(lines.begin(), lines.end(),
                           [&](const LinearCost& a, const LinearCost& b) {
                             return deviation(a, usable) < deviation(b, usable);
                           });
}

}  // namespace cinch
