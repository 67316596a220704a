// A cost from measurements of it. Pure.
#pragma once

#include <optional>
#include <span>

#include "tools/cinch/predict/cost_model.h"

namespace cinch {

// One measurement: `seconds` for `nBytes`, of which something else took `knownSeconds`.
struct CostSample {
  double nBytes;
  double seconds;
  double knownSeconds = 0;
};

// The cost with the least sum of deviations, each as a part of the measured time, so that small
// sizes count as much as large ones; a few samples may be far off. Neither part is below 0. Found
// among all lines through two samples, or through one and a bound: the time it takes grows with the
// cube of the samples. Null where no sample has a positive time.
std::optional<LinearCost> fitLinear(std::span<const CostSample> samples);

}  // namespace cinch
