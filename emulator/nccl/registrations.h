// Memory that the application announced with ncclCommRegister or ncclCommWindowRegister. There is
// nothing to prepare on a CPU: announcements are kept, so that wrong handles are noticed.
#pragma once

#include <algorithm>
#include <list>
#include <mutex>

namespace cinch::emulator {

class Registrations {
 public:
  enum class Kind { buffer, window };

  // The handle: unlike all others that are in use.
  void* add(Kind kind, void* data, size_t nBytes) {
    std::lock_guard lock(mutex_);
    return &entries_.emplace_back(Entry{kind, data, nBytes});
  }

  // What was announced under the handle; null where it is not of this kind, or no longer.
  void* find(Kind kind, const void* handle) const {
    std::lock_guard lock(mutex_);
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.kind == kind && &entry == handle;
    });
    return found == entries_.end() ? nullptr : found->data;
  }

  // False where the handle is not of this kind, or no longer.
  bool remove(Kind kind, const void* handle) {
    std::lock_guard lock(mutex_);
    return std::erase_if(entries_, [&](const Entry& entry) {
             return entry.kind == kind && &entry == handle;
           }) > 0;
  }

 private:
  struct Entry {
    Kind kind;
    void* data;
    size_t nBytes;
  };

  mutable std::mutex mutex_;
  std::list<Entry> entries_;
};

}  // namespace cinch::emulator
