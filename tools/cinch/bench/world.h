// Where this process stands among the others of its job, as its launcher says.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/result.h"

namespace cinch::bench {

struct World {
  int rank = 0;
  int ranks = 1;
  int localRank = 0;
  int localRanks = 1;
  std::string job;  // no other job of this user has it now

  bool isOneHost() const { return localRanks == ranks; }
};

using Environment = std::function<const char*(const char* name)>;  // null where unset

// Of Open MPI's mpirun (OMPI_COMM_WORLD_*) or of torchrun and its like (RANK, WORLD_SIZE); nothing
// where neither has started this process.
Result<std::optional<World>> worldOf(const Environment& environment);

// The ranks of a job spread evenly over so many hosts: which of them is this rank's.
int hostOf(const World& world, int hosts);

}  // namespace cinch::bench
