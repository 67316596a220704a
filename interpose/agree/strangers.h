// Connections on which no valid hello has been received yet. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/network/socket.h"

namespace cinch {

class Strangers {
 public:
  using Id = uint64_t;  // of a connection: later ones have greater numbers

  explicit Strangers(size_t most) : most_(std::max<size_t>(most, 1)) {}

  // Returns who has to give way to the new one, if there are too many: the oldest from the address
  // that has most of them, so that a flood from one host takes no place from the others.
  std::optional<Id> add(Id id, const IpAddress& from, Deadline due) {
    waiting_.emplace(id, Stranger{from, due});
    ++nFrom_[from];
    return waiting_.size() > most_ ? giveWay() : std::nullopt;
  }

  // It has turned out to be no stranger, or is gone.
  void remove(Id id) {
    const auto found = waiting_.find(id);
    if (found == waiting_.end()) return;
    const auto source = nFrom_.find(found->second.from);
    if (--source->second == 0) nFrom_.erase(source);
    waiting_.erase(found);
  }

  // Takes out one that has to go, if there is any.
  std::optional<Id> giveWay() {
    size_t most = 0;
    for (const auto& [from, n] : nFrom_) most = std::max(most, n);
    for (const auto& [id, stranger] : waiting_)
      if (nFrom_.at(stranger.from) == most) return taken(id);
    return std::nullopt;
  }

  // Takes out those whose time is over.
  std::vector<Id> takeExpired(Deadline now) {
    std::vector<Id> ids;
    for (const auto& [id, stranger] : waiting_)
      if (stranger.due <= now) ids.push_back(id);
    for (const Id id : ids) remove(id);
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

  Id taken(Id id) {
    remove(id);
    return id;
  }

  size_t most_;
  std::map<Id, Stranger> waiting_;
  std::map<IpAddress, size_t> nFrom_;
};

}  // namespace cinch
