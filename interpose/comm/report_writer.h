// The process's report, and its metrics: made when the first communicator is, rewritten while the
// job runs, when a communicator ends, and at exit.
#pragma once

#include <cstdint>

#include "common/stats.h"

namespace cinch {

// Where every communicator's figures are kept.
Report& processReport();

// Counts a call on a communicator that Cinch does not follow.
void countOther(uint64_t nBytes);

// Logs what was wrong with the settings, and starts the thread that rewrites the report if
// CINCH_STATS or CINCH_METRICS asks for it. Idempotent, thread-safe.
void arm();

// Rewrites now what CINCH_STATS and CINCH_METRICS ask for, if this is the process that armed (a
// forked child has no report of its own).
void writeReport();

}  // namespace cinch
