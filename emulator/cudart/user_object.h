// User objects: what a program ties to the life of graphs.
#pragma once

#include "emulator/cudart/handle_table.h"
#include "emulator/include/cuda_runtime_api.h"

namespace cinch::cudart {

// Runs the program's destructor when its last owner goes: a graph, an executable graph, a launch
// that has not finished, or the program itself while it has references.
class UserObject {
 public:
  UserObject(void* pointer, cudaHostFn_t destroy) : pointer_(pointer), destroy_(destroy) {}
  ~UserObject();
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;

  cudaUserObject_t handle() const {
    return reinterpret_cast<cudaUserObject_t>(const_cast<UserObject*>(this));
  }

 private:
  void* const pointer_;
  const cudaHostFn_t destroy_;
};

// The references that the program itself has. Null or false where the handle is not live, or where
// the program has fewer references than it gives up.
cudaUserObject_t createUserObject(void* pointer, cudaHostFn_t destroy, unsigned int references);
std::shared_ptr<UserObject> findUserObject(cudaUserObject_t handle);
bool retainUserObject(cudaUserObject_t handle, unsigned int count);
bool releaseUserObject(cudaUserObject_t handle, unsigned int count);

}  // namespace cinch::cudart
