// What a sweep tries for a collective: algorithm, protocol and channels together, and how NCCL is
// told to use just that. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/nccl_choices.h"
#include "tools/cinch/tune/options.h"

namespace cinch::tune {

struct Combination {
  Algorithm algorithm;
  Protocol protocol;
  int channels;  // 0: NCCL's own number
  bool operator==(const Combination&) const = default;
};

std::string describe(const Combination& combination);

// The tuner's name for a collective of `cinch bench`.
TunedCollective tunedCollective(const std::string& benchName);

// Those of the options that NCCL has for the collective at all.
std::vector<Combination> combinationsOf(TunedCollective collective, const Options& options);

// NAME=VALUE for a run with NCCL of this version ("2.28.9"). What the benchmark itself sends beside
// the collective keeps the ring.
std::vector<std::string> variablesOf(const Combination& combination, TunedCollective collective,
                                     const std::string& ncclVersion);

// One measurement of a combination, beside one of NCCL's own choice.
struct Pair {
  std::string collective;  // of `cinch bench`
  Combination combination;
  int round;
};

// All of a sweep, in their order: rounds do not follow each other at once, so that what disturbs
// the machine for a while does not meet all measurements of one combination.
std::vector<Pair> pairsOf(const Options& options);

}  // namespace cinch::tune
