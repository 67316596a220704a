// How far a result may be from the exact one.
#pragma once

#include <span>

#include "kernels/wire/wire_format.h"
#include "tools/cinch/bench/test_values.h"

namespace cinch::bench {

struct Tolerance {
  double value = 0;  // of each value
  double nmse = 0;   // of all together: squared error over squared signal
};

// Of NCCL alone.
Tolerance exactTolerance(const TestValues& values);

// How Cinch coded a call.
struct Coding {
  wire::CodecFormat codec;
  float gain = 0;  // of the error feedback
  bool dithers = false;
};

// Of the codec: from the errors of a round trip of what one rank sends, and of the exact sum. Each
// rank's contribution is coded once, and an AllReduce's sum once more.
Tolerance codecTolerance(const Coding& coding, const TestValues& values, const Shape& shape,
                         ncclRedOp_t operation);

}  // namespace cinch::bench
