// Compares what came back with what had to.
#pragma once

#include <cstdint>
#include <span>

#include "tools/cinch/bench/tolerance.h"

namespace cinch::bench {

struct CheckFigures {
  uint64_t wrong = 0;       // values beyond the tolerance
  double largestError = 0;  // of a value
  double squaredError = 0;  // sums over all values
  double squaredSignal = 0;

  double nmse() const;
  void add(std::span<const double> found, std::span<const double> expected, double bound);
};

// How many values count as wrong: those beyond their bound, or all that there are where the error
// of all together is beyond its own.
uint64_t wrongValues(const CheckFigures& figures, const Tolerance& tolerance, uint64_t count);

}  // namespace cinch::bench
