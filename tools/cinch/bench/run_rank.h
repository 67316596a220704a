// One rank of the benchmark, from the communicator to the results.
#pragma once

#include "tools/cinch/bench/options.h"
#include "tools/cinch/bench/world.h"

namespace cinch::bench {

// The exit status: 0 where all results are right. Throws std::runtime_error.
int runRank(const Options& options, const World& world);

}  // namespace cinch::bench
