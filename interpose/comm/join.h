// Brings a new communicator under Cinch's eye: what happens before and after the real init.
#pragma once

#include <memory>
#include <string>

#include "interpose/comm/comm_state.h"

namespace cinch {

class Joining {
 public:
  // Before the real init: gets this rank's resources and says hello to the others. Never fails:
  // what goes wrong becomes the reason why the communicator passes. `refusal` is why this rank
  // cannot take part whatever the others say, or empty.
  Joining(const RealNccl& real, const ncclUniqueId& id, int rank, int nRanks, std::string refusal);

  // After the real init: hears the verdict and makes the communicator's state. An error only with
  // CINCH_STRICT, where the ranks do not agree.
  Result<std::shared_ptr<CommState>> complete(ncclComm_t comm);

 private:
  void greet(const ncclUniqueId& id, std::string refusal);
  Result<Verdict> verdict();

  const RealNccl& real_;
  const int rank_;
  const int nRanks_;
  CommResources resources_;
  std::unique_ptr<Agreement> agreement_;
  std::string passReason_;  // empty while agreement is possible
};

}  // namespace cinch
