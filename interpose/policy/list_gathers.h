// Broadcasts that together are a gather: one from each rank in turn. PyTorch gathers a list of
// tensors of unequal sizes so, and on the NCCL back end of 2.15 any list
// (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp: broadcastUnevenSizes).
//
// The first of them may be one of parameters. It is held back until the next call shows which: what
// follows from a broadcast is known one call later than it was made, on all ranks alike.
//
// Pure, and fed by one communicator's collectives only. Groups do not matter: a rank may put other
// calls into its group.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "interpose/policy/signature.h"

namespace cinch {

class ListGathers {
 public:
  explicit ListGathers(int nRanks);

  struct Call {
    Signature signature{};
    std::optional<uint32_t> index;  // of the signature
    bool isLarge = false;
  };

  // The next call; `root` only matters for broadcasts, and `mayBegin` says whether a gather can
  // begin with it. True where it is held back, or ends a gather with all that were.
  bool hold(const Call& call, int root, bool mayBegin);
  // Those that turn out to have been broadcasts, now that hold() has been told the next call.
  std::span<const Call> released() const { return released_; }
  // Whether the call ended a gather.
  bool hasGathered() const { return hasGathered_; }

  // All calls since the last commit() or takeBack() were made, or were not.
  void commit();
  void takeBack();

 private:
  bool continues(const Call& call, int root) const;

  const size_t nRanks_;
  std::vector<Call> held_, committed_, released_;
  bool hasGathered_ = false;
};

}  // namespace cinch
