// What a sweep's measurements say: for which sizes a combination is better than NCCL's own choice,
// beyond noise, and the rules that follow. Pure.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tools/cinch/tune/combination.h"
#include "tools/cinch/tune/state.h"
#include "tuner_plugin/rules.h"

namespace cinch::tune {

// One size of one collective.
struct Verdict {
  TunedCollective collective;
  uint64_t nBytes = 0;
  double own = 0;                     // microseconds of NCCL's own choice, the median
  double noise = 0;                   // how far its times spread, as a share of them
  std::optional<Combination> choice;  // nothing: NCCL's own stays
  double chosen = 0;                  // microseconds of the choice, the median
};

// Whether NCCL has refused the pair's combination, or hung with it, in any round so far.
bool wasRefused(std::span<const Pair> pairs, std::span<const PairResult> results, const Pair& pair);

// By collective, then size. `results` may be shorter than `pairs`, and lack what was refused. What
// was refused once is never chosen, however fast it was in other rounds.
std::vector<Verdict> judge(std::span<const Pair> pairs, std::span<const PairResult> results);

// Neighbours of equal choice are one rule. Between two sizes the border is their geometric mean;
// beyond the smallest and the largest nothing is said.
std::vector<tuner::Rule> rulesOf(std::span<const Verdict> verdicts, int nRanks, int nNodes);

}  // namespace cinch::tune
