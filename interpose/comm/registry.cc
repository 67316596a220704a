#include "interpose/comm/registry.h"

#include <mutex>

namespace cinch {

// Never destroyed: programs call NCCL from destructors that run after ours.
Registry& Registry::instance() {
  static auto& registry = *new Registry;
  return registry;
}

std::shared_ptr<CommState> Registry::find(ncclComm_t comm) {
  const std::shared_lock lock(mutex_);
  const auto found = states_.find(comm);
  return found == states_.end() ? nullptr : found->second;
}

void Registry::add(std::shared_ptr<CommState> state) {
  // One that is replaced ends after the lock, as it may wait for its device.
  const std::unique_lock lock(mutex_);
  states_[state->comm].swap(state);
}

bool Registry::empty() {
  const std::shared_lock lock(mutex_);
  return states_.empty();
}

std::shared_ptr<CommState> Registry::take(ncclComm_t comm) {
  const std::unique_lock lock(mutex_);
  const auto node = states_.extract(comm);
  return node.empty() ? nullptr : std::move(node.mapped());
}

}  // namespace cinch
