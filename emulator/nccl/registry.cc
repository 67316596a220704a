#include "emulator/nccl/registry.h"

#include <mutex>
#include <unordered_map>

namespace cinch::emulator {
namespace {

struct Registry {
  std::mutex mutex;
  std::unordered_map<const void*, std::shared_ptr<Communicator>> communicators;
};

// Never destroyed: a process may exit while communicators work.
Registry& registry() {
  static Registry* registry = new Registry;
  return *registry;
}

}  // namespace

ncclComm_t enlist(std::shared_ptr<Communicator> communicator) {
  Communicator* const key = communicator.get();
  std::lock_guard lock(registry().mutex);
  registry().communicators[key] = std::move(communicator);
  return reinterpret_cast<ncclComm_t>(key);
}

std::shared_ptr<Communicator> find(ncclComm_t handle) {
  std::lock_guard lock(registry().mutex);
  const auto found = registry().communicators.find(handle);
  return found == registry().communicators.end() ? nullptr : found->second;
}

void forget(const Communicator& communicator) {
  std::shared_ptr<Communicator> last;  // destroyed after the lock is released
  std::lock_guard lock(registry().mutex);
  const auto found = registry().communicators.find(&communicator);
  if (found == registry().communicators.end()) return;
  last = std::move(found->second);
  registry().communicators.erase(found);
}

}  // namespace cinch::emulator
