// What a call must give, computed in double from every rank's input, and how far a result may be
// from it: by the rounding of plain NCCL, or by the codec.
#pragma once

#include <vector>

#include "tests/fuzz/program.h"
#include "tests/fuzz/values.h"

namespace cinch::fuzz {

struct Tolerance {
  int bits = 0;           // per code, of sums that may be compressed; 0: plain NCCL
  bool feedback = false;  // residuals are added to later calls
  bool rotated = false;   // blocks may be rotated before they are coded: CINCH_CODEC=auto
};

// Everything that a call's result depends on besides the inputs.
struct CallFacts {
  const Program* program;
  const Call* call;
  int worldRank;
  std::vector<double> scalars;  // of the user's operation, by member; empty for others
  DataKey key;
};

// How far the output is from the exact result, as a share of what is allowed: at most 1 is right.
struct Deviation {
  double worst = 0;       // of any value
  double meanSquare = 0;  // of all together, against what rounding to codes gives on average
};

// `output` is what the rank received: nothing for calls that give it nothing.
Deviation compare(const CallFacts& facts, const Tolerance& tolerance, const Bytes& output);

// Number of values that the call writes on this rank, and that it reads.
size_t outputCount(const Program& program, const Call& call, int worldRank);
size_t inputCount(const Program& program, const Call& call, int worldRank);

}  // namespace cinch::fuzz
