// Connections on which no valid hello has been received yet. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "common/network/socket.h"

namespace cinch {

class Strangers {
 public:
  using Id = uint64_t;  // of a connection: later ones have greater numbers

  explicit Strangers(size_t most) : most_(std::max<size_t>(most, 1)) {}

  void add(Id id, const IpAddress& from, Deadline due) {
    waiting_.emplace(id, Stranger{from, due});
    ++nFrom_[from];
  }

  // It has turned out to be no stranger, or is gone.
  void remove(Id id) {
    const auto found = waiting_.find(id);
    if (found == waiting_.end()) return;
    const auto source = nFrom_.find(found->second.from);
    if (--source->second == 0) nFrom_.erase(source);
    waiting_.erase(found);
  }

  // The time of one is over now, so that there is a descriptor for the next. False where none
  // waits.
  bool hurry(Deadline now) {
    if (waiting_.empty()) return false;
    waiting_.at(oldestOfMost()).due = now;
    return true;
  }

  // Takes out those whose time is over, and those that are too many: the oldest from the address
  // that has most of them, so that a flood from one host takes no place from the others.
  std::vector<Id> takeOut(Deadline now) {
    std::vector<Id> ids;
    for (const auto& [id, stranger] : waiting_)
      if (stranger.due <= now) ids.push_back(id);
    for (const Id id : ids) remove(id);
    while (waiting_.size() > most_) {
      ids.push_back(oldestOfMost());
      remove(ids.back());
    }
    return ids;
  }

  Deadline deadline() const {
    Deadline due = kNoDeadline;
    for (const auto& [id, stranger] : waiting_) due = std::min(due, stranger.due);
    return due;
  }

 private:
  struct Stranger {
    IpAddress from;
    Deadline due;
  };

  // Of the address that has most, the oldest; of several such addresses, the oldest of all.
  Id oldestOfMost() const {
    size_t most = 0;
    for (const auto& [from, n] : nFrom_) most = std::max(most, n);
    const auto isOfMost = [&](const auto& entry) { return nFrom_.at(entry.second.from) == most; };
    return std::find_if(waiting_.begin(), waiting_.end(), isOfMost)->first;
  }

  size_t most_;
  std::map<Id, Stranger> waiting_;
  std::map<IpAddress, size_t> nFrom_;
};

}  // namespace cinch
