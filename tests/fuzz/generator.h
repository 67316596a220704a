// Random NCCL programs. Pure: the same seed and features give the same program everywhere.
//
// Programs are legal: what NCCL's documentation lets ranks do without waiting for each other for
// ever. LegalityChecker (legality.h) knows the rules a second time, independently.
#pragma once

#include "tests/fuzz/program.h"

namespace cinch::fuzz {

// What programs may use.
struct Features {
  bool userOps = true;
  bool splits = true;
  bool simulate = true;
  bool graphs = true;
  bool threads = true;  // two in a rank
  bool aborts = true;
  bool nonBlocking = true;
  // Several ranks in a process. Freeing memory waits for all work of the device, so that ranks
  // which share one may come to wait for themselves: only where each has its own.
  bool sharedProcess = false;
};

Program generate(uint64_t seed, const Features& features);

}  // namespace cinch::fuzz
