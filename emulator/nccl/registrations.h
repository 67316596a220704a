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

  std::mutex mutex_;
  std::list<Entry> entries_;
};

}  // namespace cinch::emulator
