// Whether NCCL's collectives give exactly what they should: every collective, type and operation,
// on small integers, which all types hold exactly, as they do all sums on the way. So no order of
// the sums may show, and not a byte may differ.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tests/gpu/rank_program.h"

namespace cinch::ranks {

struct CheckResults {
  struct Tally {
    int calls = 0;
    int wrong = 0;
  };

  std::map<std::string, Tally> collectives;  // by name
  std::string firstWrong;                    // in words; empty where all is right

  bool correct() const { return !collectives.empty() && firstWrong.empty(); }
};

// What each buffer of the device must have room for.
size_t bytesToCheck(const std::vector<size_t>& counts, int ranks);

// Every rank of the communicator must call this, with the same counts: of values, per rank where a
// collective has a part for each. Of 2 to 6 ranks.
CheckResults checkCollectives(const Place& place, const Device& device, ncclComm_t comm,
                              const std::vector<size_t>& counts);

}  // namespace cinch::ranks
