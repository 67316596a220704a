// How the ranks of a new communicator find one another: all connect to a root, a thread in the
// process that made the unique id, which hands every rank what all ranks said.
//
// A missing rank makes all others wait, as in NCCL. A rank that leaves, or contradicts another,
// ends the wait on all of them with a text that names it.
#pragma once

#include <vector>

#include "common/result.h"
#include "emulator/nccl/bootstrap_root.h"
#include "emulator/nccl/frame.h"
#include "emulator/nccl/unique_id.h"

namespace cinch::emulator {

// Makes an id and starts its root. NCCL_COMM_ID (host:port), where set, says where the root is
// going to be instead: rank 0 starts it, in startNamedRoot().
Result<UniqueId> createUniqueId();

// Rank 0 of every communicator calls this: starts the root that NCCL_COMM_ID promised, if so.
Result<void> startNamedRoot(const UniqueId& id, int rank);

// One rank's connection to the root.
class Bootstrap {
 public:
  // Fails within seconds where the root is gone.
  static Result<Bootstrap> join(const UniqueId& id, int rank, int nRanks);

  // Gives `mine` to all ranks and returns everybody's, in rank order; of one size on all ranks.
  // Every rank calls it kBootstrapRounds times.
  Result<std::vector<char>> exchange(const std::vector<char>& mine);

  // Fails if the root has announced, since the last exchange, that a rank is lost.
  Result<void> check();

 private:
  explicit Bootstrap(Descriptor socket) : socket_(std::move(socket)) {}
  Result<std::vector<char>> receive();

  Descriptor socket_;
  FrameReader reader_;
};

}  // namespace cinch::emulator
