// The reduction operations that an application made on one communicator.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "common/nccl_types.h"
#include "emulator/nccl/operation.h"

namespace cinch::emulator {

struct UserOperation {
  ncclDataType_t type;
  Scalar scalar;
};

// Handles go out again after remove(). They are unlike those of other communicators, so that one
// which strays is noticed. Thread-safe.
class UserOperations {
 public:
  UserOperations();

  ncclRedOp_t add(const UserOperation& operation);
  // Nothing where the handle is not one of these, or no longer.
  std::optional<UserOperation> find(ncclRedOp_t handle) const;
  // False likewise.
  bool remove(ncclRedOp_t handle);

 private:
  ncclRedOp_t handleOf(size_t index) const;
  std::optional<size_t> indexOf(ncclRedOp_t handle) const;

  const uint64_t shift_;
  mutable std::mutex mutex_;
  std::vector<std::optional<UserOperation>> operations_;  // by index; nothing: free
  std::vector<size_t> free_;                              // the one that goes out next last
};

}  // namespace cinch::emulator
