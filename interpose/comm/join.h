// How a rank of a new communicator comes to agree with the others: it says hello, and hears the
// verdict later, when it first needs it.
#pragma once

#include <memory>
#include <string>

#include "interpose/agree/agreement.h"
#include "interpose/comm/comm_resources.h"
#include "interpose/real/real_nccl.h"

namespace cinch {

class Joining {
 public:
  // Before the real init: gets this rank's resources and says hello to the others. Never fails:
  // what goes wrong becomes the reason why the communicator passes. Waits for nobody but the
  // server's acknowledgement.
  static std::unique_ptr<Joining> byId(const RealNccl& real, const ncclUniqueId& id, int rank,
                                       int nRanks);
  // After the real Split or Shrink has made a communicator from one whose ranks agreed over
  // `parent`. The current device is the new communicator's.
  static std::unique_ptr<Joining> byParent(const RealNccl& real, const Agreement& parent,
                                           uint64_t ordinal, int64_t part, int rank, int nRanks);
  // Of a rank that has its resources and has said hello over `agreement`.
  static std::unique_ptr<Joining> over(std::unique_ptr<Agreement> agreement,
                                       CommResources resources);
  // For a communicator that is followed but passes.
  static std::unique_ptr<Joining> passing(std::string reason);

  // After the real communicator is ready. May wait for ranks that have not said hello yet, no
  // longer than CINCH_AGREE_TIMEOUT.
  Verdict hearVerdict();

  // To be moved to the communicator's state where the ranks agreed.
  CommResources resources;
  // The channel to the other ranks, null where there is none.
  const std::shared_ptr<Agreement>& agreement() const { return agreement_; }

 private:
  Joining() = default;
  // Gets the resources and reports to the log; the hello says why this rank cannot take part, if
  // so.
  Hello prepare(const RealNccl& real, int rank, int nRanks);
  void accept(Result<std::unique_ptr<Agreement>> greeted);

  std::shared_ptr<Agreement> agreement_;
  std::string passReason_;  // empty while agreement is possible
};

}  // namespace cinch
