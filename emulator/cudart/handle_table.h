// Opaque handles that a program holds, and the objects behind them.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace cinch::cudart {

// Knows which handles are live, so that a stale or foreign one is an error and not a crash. A
// handle is its object's address. Thread-safe.
template <class Handle, class Object>
class HandleTable {
 public:
  Handle add(std::shared_ptr<Object> object) {
    const Handle handle = reinterpret_cast<Handle>(object.get());
    std::unique_lock lock(mutex_);
    objects_.emplace(handle, std::move(object));
    return handle;
  }

  // Null where `handle` is not live.
  std::shared_ptr<Object> find(Handle handle) const {
    std::shared_lock lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }

  // Ends the handle and returns what it stood for; null where it was not live.
  std::shared_ptr<Object> remove(Handle handle) {
    std::unique_lock lock(mutex_);
    auto node = objects_.extract(handle);
    return node.empty() ? nullptr : std::move(node.mapped());
  }

  // Ends all handles.
  void clear() {
    std::unordered_map<Handle, std::shared_ptr<Object>> ended;
    std::unique_lock lock(mutex_);
    ended.swap(objects_);
    lock.unlock();  // objects are destroyed without the lock
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<Handle, std::shared_ptr<Object>> objects_;
};

}  // namespace cinch::cudart
