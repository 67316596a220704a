// The values that the ranks send, and what must come back: every rank can work out both for itself.
//
// Values are integers over a power of two, so few bits of each that sums over all ranks are exact
// in any order, in every type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tools/cinch/bench/collective.h"

namespace cinch::bench {

class TestValues {
 public:
  TestValues(const ElementType& type, ncclRedOp_t operation, CallKind kind, int ranks);

  // What `rank` sends, from `first` on. `round` tells one fill of a buffer from the next.
  void send(int rank, uint64_t round, uint64_t first, std::span<double> values) const;
  // What `rank` must receive, from `first` on, of a call on `count` values.
  void expect(int rank, uint64_t round, uint64_t count, uint64_t first,
              std::span<double> values) const;
  // How far a value may be from that where NCCL alone is at work: 0 where all sums are exact.
  double roundingBound() const;
  // The last place of the largest result, in the type.
  double resultStep() const;

 private:
  double valueOf(int rank, uint64_t round, uint64_t index) const;
  void reduce(uint64_t round, uint64_t first, std::span<double> values) const;
  double largestResult() const;

  ElementType type_;
  ncclRedOp_t operation_;
  CallKind kind_;
  int ranks_;
  int64_t limit_;  // of the integers
  double unit_;    // what they are multiplied by
  bool isSigned_;
};

}  // namespace cinch::bench
