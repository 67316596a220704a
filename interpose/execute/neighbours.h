// Calls that follow one another in a group, whose codec works on all of them at a time.
#pragma once

#include <array>

#include "interpose/execute/hosts.h"

namespace cinch {

// Of one communicator, on one stream, with input of one kind; so one device, and no stream beside
// the caller's but for a call alone. They live in their batch.
class Neighbours {
 public:
  static constexpr uint32_t kMost = 16;  // as many as go into one kernel, roughly

  bool takes(const BatchItem& item) const {
    if (n_ == 0) return true;
    return n_ < kMost && item.comm == front().comm && item.call.stream == front().call.stream &&
           hasLanes(item) == hasLanes(front());
  }
  void add(BatchItem& item) { items_[n_++] = &item; }
  // Those of which `isOne` holds.
  template <class IsOne>
  Neighbours only(const IsOne& isOne) const {
    Neighbours some;
    for (BatchItem* item : *this)
      if (isOne(*item)) some.add(*item);
    return some;
  }

  bool empty() const { return n_ == 0; }
  uint32_t size() const { return n_; }
  const BatchItem& front() const { return *items_.front(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.begin() + n_; }

 private:
  std::array<BatchItem*, kMost> items_;
  uint32_t n_ = 0;
};

}  // namespace cinch
