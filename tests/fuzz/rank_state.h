// What one rank holds while it runs a program: its communicators, streams, operations, graphs and
// buffers, by the numbers that the program gives them. Threads of one rank use different entries.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/blackboard.h"
#include "tests/fuzz/expectation.h"
#include "tests/fuzz/program.h"

namespace cinch::fuzz {

// Where the parts of a call lie in its piece of device memory, in bytes. Unused memory around them
// must stay as it was.
struct Layout {
  size_t sendAt, receiveAt, outputBytes, total;
};
Layout layoutOf(const Program& program, const Call& call, int worldRank);

struct RankState {
  const Program& program;
  const int worldRank;
  Blackboard& blackboard;
  const Tolerance tolerance;

  std::vector<ncclComm_t> comms;
  std::vector<cudaStream_t> streams;
  std::vector<ncclRedOp_t> ops;
  std::vector<cudaGraphExec_t> graphs;
  std::vector<std::vector<Call>> captured;                // the calls of each graph
  std::map<std::pair<int, int>, unsigned char*> buffers;  // by stream and slot
  std::vector<void*> scalars;                             // on the device, by operation
  std::vector<std::vector<double>> factors;               // by operation, by member

  std::vector<std::map<std::string, int>> seen;  // by communicator: calls by signature

  RankState(const Program& program, int worldRank, Blackboard& blackboard,
            const Tolerance& tolerance);
  ~RankState();
  RankState(const RankState&) = delete;

  unsigned char* buffer(const Call& call) { return buffers.at({call.stream, call.slot}); }
};

}  // namespace cinch::fuzz
