#include "tools/cinch/bench/check.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cinch::bench {

double CheckFigures::nmse() const {
  if (squaredError == 0) return 0;
  return squaredSignal > 0 ? squaredError / squaredSignal : std::numeric_limits<double>::infinity();
}

void CheckFigures::add(std::span<const double> found, std::span<const double> expected,
                       double bound) {
  for (size_t i = 0; i < found.size(); ++i) {
    const double error = std::abs(found[i] - expected[i]);
    if (!(error <= bound)) ++wrong;  // NaN too
    if (!(error <= largestError)) largestError = error;
    squaredError += error * error;
    squaredSignal += expected[i] * expected[i];
  }
}

uint64_t wrongValues(const CheckFigures& figures, const Tolerance& tolerance, uint64_t count) {
  const bool isWithin = figures.nmse() <= tolerance.nmse;
  return isWithin ? figures.wrong : std::max(figures.wrong, count);
}

}  // namespace cinch::bench
