// One measured process: a two-rank communicator whose first rank calls ncclAllReduce many times.
#pragma once

#include <cstdint>
#include <string>

namespace cinch {

struct Measurement {
  double nsPerCall = 0;
  double allocationsPerCall = 0;
  std::string answeredBy;     // file that answers the program's ncclAllReduce
  bool allForwarded = false;  // NCCL saw every call
};

// Makes `nCalls` calls of 1 KB after a warm-up. Needs a process of its own: communicators are made
// and destroyed.
Measurement measure(uint64_t nCalls);

}  // namespace cinch
