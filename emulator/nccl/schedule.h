// What one rank does in one operation, step by step. Pure arithmetic: all ranks compute it alike,
// so sender and receiver agree on every message without telling each other.
//
// Data moves as slices through two shapes:
//
// - circle (AllReduce, ReduceScatter, AllGather): the buffer is cut into one chunk per rank, which
//   travels round the ring for `hops` hops. Chunks are cut into slices, `window` of which follow
//   one another at each hop, so that a rank receives one slice while it sends the next: message i
//   of a rank is made from message i - window of its predecessor. Longer chunks take several
//   rounds, whose messages follow without a gap.
// - chain (Broadcast, Reduce, Send, Receive, local copies): slices flow from the first position to
//   the last.
#pragma once

#include <cstddef>

#include "emulator/nccl/operation.h"

namespace cinch::emulator {

inline constexpr size_t kSlotBytes = 128 << 10;  // the longest slice
inline constexpr size_t kSlots = 8;              // slices in flight per connection
inline constexpr size_t kShortestSliceBytes = 8 << 10;

// The length of slices, a multiple of 16, for `nBytes` that one rank contributes to each hop: short
// enough that filling the pipeline costs little, long enough that a message's fixed cost does not
// show.
size_t sliceBytes(size_t nBytes);

// Elements that a step touches: the same `count` at an offset of the input and of the output.
struct Range {
  size_t input = 0;
  size_t output = 0;
  size_t count = 0;
};

struct Step {
  bool receives = false;
  bool sends = false;
  bool forwards = false;  // sends what it received (combined); otherwise its own `fresh` input
  bool combines = false;  // adds the input at `received` to what arrived
  bool finishes = false;  // the sum is complete
  bool stores = false;    // what arrived (combined) is output
  bool keeps = false;     // `fresh` is output too
  Range received;
  Range fresh;
};

class Schedule {
 public:
  Schedule(const Operation& operation, int rank, int nRanks);

  size_t nSteps() const { return nSteps_; }
  size_t nReceives() const { return nReceives_; }
  size_t nSends() const { return nSends_; }
  Step step(size_t index) const { return circles_ ? circleStep(index) : chainStep(index); }

 private:
  void planCircle(const Operation& operation);
  void planChain(const Operation& operation);
  Step circleStep(size_t index) const;
  Step chainStep(size_t index) const;
  size_t hopOf(size_t message) const { return message / window_ % hops_; }
  Range circleRange(size_t message, int sender) const;
  Range sliceRange(size_t slice, size_t chunkCount) const;

  int rank_;
  int nRanks_;
  bool circles_;
  size_t nSteps_ = 0;
  size_t nReceives_ = 0;
  size_t nSends_ = 0;
  size_t sliceCount_ = 0;  // elements

  // Circle.
  size_t hops_ = 0;
  size_t reduceHops_ = 0;  // the first of them, which combine
  size_t window_ = 0;      // slices
  size_t nMessages_ = 0;
  int shift_ = 0;           // a rank's first message is of chunk rank - shift
  size_t inputStride_ = 0;  // elements between chunks of the input
  size_t outputStride_ = 0;
  size_t chunkCount_ = 0;  // elements of a chunk
  size_t totalCount_ = 0;  // elements of all chunks: the last ones may be short or empty

  // Chain.
  bool isFirst_ = false;
  bool isLast_ = false;
  bool combines_ = false;
  bool storesAll_ = false;  // every position has an output, not the last alone
};

}  // namespace cinch::emulator
