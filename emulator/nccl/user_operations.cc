#include "emulator/nccl/user_operations.h"

#include <atomic>

namespace cinch::emulator {
namespace {

// How many handles there are: all values of the enumeration that are no built-in operation.
constexpr uint64_t kHandles = uint64_t{ncclMaxRedOp} - ncclNumOps + 1;

// Far from those of the communicators before it.
uint64_t nextShift() {
  static std::atomic<uint64_t> count{0};
  return ++count * 0x9e3779b97f4a7c15u % kHandles;
}

}  // namespace

UserOperations::UserOperations() : shift_(nextShift()) {}

ncclRedOp_t UserOperations::handleOf(size_t index) const {
  return static_cast<ncclRedOp_t>(ncclNumOps + (index + shift_) % kHandles);
}

// With the lock held.
std::optional<size_t> UserOperations::indexOf(ncclRedOp_t handle) const {
  const auto value = static_cast<int64_t>(handle);
  if (value < ncclNumOps || value > ncclMaxRedOp) return std::nullopt;
  const size_t index = (static_cast<uint64_t>(value - ncclNumOps) + kHandles - shift_) % kHandles;
  if (index >= operations_.size() || !operations_[index]) return std::nullopt;
  return index;
}

ncclRedOp_t UserOperations::add(const UserOperation& operation) {
  std::lock_guard lock(mutex_);
  if (free_.empty()) {
    free_.push_back(operations_.size());
    operations_.emplace_back();
  }
  const size_t index = free_.back();
  free_.pop_back();
  operations_[index] = operation;
  return handleOf(index);
}

std::optional<UserOperation> UserOperations::find(ncclRedOp_t handle) const {
  std::lock_guard lock(mutex_);
  const std::optional<size_t> index = indexOf(handle);
  return index ? operations_[*index] : std::nullopt;
}

bool UserOperations::remove(ncclRedOp_t handle) {
  std::lock_guard lock(mutex_);
  const std::optional<size_t> index = indexOf(handle);
  if (!index) return false;
  operations_[*index].reset();
  free_.push_back(*index);
  return true;
}

}  // namespace cinch::emulator
