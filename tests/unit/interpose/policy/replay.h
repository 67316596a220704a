// Replays a trace through the policy as a rank would where nothing is set, and compares what it
// makes of every call with what the buffers really hold.
#pragma once

#include "tests/unit/interpose/policy/trace.h"

namespace cinch::test {

struct Replay {
  uint64_t gradients = 0;     // large calls whose buffers hold gradients
  uint64_t compressed = 0;    // of those, calls that are to be compressed
  uint64_t withFeedback = 0;  // of those, calls that use a residual
  uint64_t wrongSlots = 0;    // a residual of other parameters
  uint64_t wrongCalls = 0;    // compressed, though they hold no gradients
  int lockedStep = -1;        // the step in which the first period was learned
  // From the twelfth step on, by when every job is to be known.
  uint64_t lateGradients = 0, lateCompressed = 0;
  int nSteps = 0;
};

// Of the calls of communicator `comm` alone.
Replay replay(const Trace& trace, int comm);

}  // namespace cinch::test
