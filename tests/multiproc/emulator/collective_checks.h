// Every collective once, against sums made here.
#pragma once

#include <functional>
#include <vector>

#include "tests/multiproc/emulator/elements.h"
#include "tests/multiproc/emulator/rank_processes.h"

namespace cinch::test {

// One call's parameters, and the data that all ranks can compute of one another.
struct Case {
  ncclDataType_t type;
  ncclRedOp_t op;
  size_t count;
  int nRanks;
};

// Runs one call on a stream of its own and waits for it.
void onStream(const std::function<ncclResult_t(cudaStream_t)>& call);

// All collectives of this case, in place and not; those that reduce nothing with ncclSum alone.
void checkAll(const Case& c, int rank, ncclComm_t comm);

}  // namespace cinch::test
