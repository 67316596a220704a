// The communicators that Cinch follows in this process, by NCCL's handle.
#pragma once

#include <memory>
#include <shared_mutex>
#include <unordered_map>

#include "interpose/comm/comm_state.h"

namespace cinch {

class Registry {
 public:
  static Registry& instance();

  // Null for a communicator that was made in a way this version does not follow.
  std::shared_ptr<CommState> find(ncclComm_t comm);
  void add(std::shared_ptr<CommState> state);
  // Forgets a communicator that is about to end; NCCL may give its address to a new one.
  std::shared_ptr<CommState> take(ncclComm_t comm);
  bool empty();

 private:
  Registry() = default;
  std::shared_mutex mutex_;
  std::unordered_map<ncclComm_t, std::shared_ptr<CommState>> states_;
};

}  // namespace cinch
