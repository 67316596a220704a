// The benchmark's own ranks: processes of this host.
#pragma once

#include <functional>

#include "tools/cinch/bench/world.h"

namespace cinch::bench {

// Runs `body` in so many processes and waits for all; where one fails, the others are ended.
// Returns 0, or the exit status of the first that failed. This process must not have any threads
// yet.
int runOwnRanks(int ranks, const std::function<int(const World&)>& body);

// As many ranks as this machine has GPUs, and at least two.
int defaultRanks();

}  // namespace cinch::bench
