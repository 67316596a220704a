// How the ranks of a new communicator find one another: all connect to a root, a thread in the
// process that made the unique id, which hands every rank what all ranks said.
//
// A missing rank makes all others wait, as in NCCL. A rank that leaves, or contradicts another,
// ends the wait on all of them with a text that names it.
#pragma once

#include <vector>

#include "common/result.h"
#include "emulator/nccl/bootstrap_root.h"
#include "emulator/nccl/cancellation.h"
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
  // Fails within seconds where the root is gone. `cancellation` ends all waits; it outlives this.
  static Result<Bootstrap> join(const UniqueId& id, int rank, int nRanks,
                                const Cancellation& cancellation);

  // Gives `mine` to all ranks and returns everybody's. Every rank calls it as often as the root has
  // rounds.
  Result<Shares> exchange(const std::vector<char>& mine);

  // From now on exchange() returns the shares of these ranks alone, in this order.
  void restrictTo(std::vector<int> members) { members_ = std::move(members); }

  // Fails if the root has announced, since the last exchange, that a rank is lost.
  Result<void> check();

 private:
  Bootstrap(Descriptor socket, int nRanks, const Cancellation& cancellation);
  Result<std::vector<char>> receive();
  Result<Shares> memberShares(const std::vector<char>& all) const;

  Descriptor socket_;
  FrameReader reader_;
  size_t nRanks_;
  std::vector<int> members_;
  const Cancellation* cancellation_;
};

}  // namespace cinch::emulator
