#include "emulator/cudart/user_object.h"

#include <mutex>
#include <unordered_map>

#include "emulator/cudart/api.h"

namespace cinch::cudart {
namespace {

struct Owned {
  std::shared_ptr<UserObject> object;
  unsigned long long references;
};

struct OwnedObjects {
  std::mutex mutex;
  std::unordered_map<cudaUserObject_t, Owned> entries;
};

OwnedObjects& owned() {
  static auto* const objects = new OwnedObjects;  // outlives the process's exit
  return *objects;
}

}  // namespace

UserObject::~UserObject() {
  const HostFunctionScope scope;
  destroy_(pointer_);
}

cudaUserObject_t createUserObject(void* pointer, cudaHostFn_t destroy, unsigned int references) {
  auto object = std::make_shared<UserObject>(pointer, destroy);
  const cudaUserObject_t handle = object->handle();
  std::lock_guard lock(owned().mutex);
  owned().entries[handle] = {std::move(object), references};
  return handle;
}

std::shared_ptr<UserObject> findUserObject(cudaUserObject_t handle) {
  std::lock_guard lock(owned().mutex);
  const auto found = owned().entries.find(handle);
  return found == owned().entries.end() ? nullptr : found->second.object;
}

bool retainUserObject(cudaUserObject_t handle, unsigned int count) {
  std::lock_guard lock(owned().mutex);
  const auto found = owned().entries.find(handle);
  if (found == owned().entries.end()) return false;
  found->second.references += count;
  return true;
}

bool releaseUserObject(cudaUserObject_t handle, unsigned int count) {
  std::shared_ptr<UserObject> last;  // destroyed after the lock is released
  std::lock_guard lock(owned().mutex);
  const auto found = owned().entries.find(handle);
  if (found == owned().entries.end() || found->second.references < count) return false;
  found->second.references -= count;
  if (found->second.references > 0) return true;
  last = std::move(found->second.object);
  owned().entries.erase(found);
  return true;
}

}  // namespace cinch::cudart
