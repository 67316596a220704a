// A Sequence of calls that may turn out not to have been made: NCCL says only in the end whether it
// takes a group, and on each rank by itself.
//
// Every call has its place as if those before it had been made, whatever groups they are in: ranks
// may put calls into other groups than each other. What was made is followed a second time, so that
// there is something to go back to.
#pragma once

#include <optional>
#include <vector>

#include "interpose/policy/sequence.h"

namespace cinch {

class TentativeSequence {
 public:
  // As those of Sequence; without an index where the table of signatures is full.
  Place observe(const Signature& signature, std::optional<uint32_t> index, bool isLarge) {
    pending_.push_back({signature, index, isLarge});
    return next(now_, pending_.back());
  }
  const Sequence& now() const { return now_; }

  // All calls observed since the last commit() or takeBack() were made, or were not.
  void commit() {
    for (const Call& call : pending_) next(made_, call);
    pending_.clear();
  }
  void takeBack() {
    if (!pending_.empty()) now_ = made_;
    pending_.clear();
  }

 private:
  struct Call {
    Signature signature;
    std::optional<uint32_t> index;
    bool isLarge;
  };
  static Place next(Sequence& sequence, const Call& call) {
    return call.index ? sequence.observe(call.signature, *call.index, call.isLarge)
                      : sequence.observeUnknown(call.signature, call.isLarge);
  }

  Sequence now_, made_;
  std::vector<Call> pending_;
};

}  // namespace cinch
