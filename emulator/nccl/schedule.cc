#include "emulator/nccl/schedule.h"

#include <algorithm>

#include "emulator/nccl/reduction.h"

namespace cinch::emulator {
namespace {

constexpr size_t kAlignment = 16;
// Slices that a chunk is cut into at least, where they do not become too short.
constexpr size_t kSlicesPerChunk = 2 * kSlots;

constexpr size_t divideUp(size_t a, size_t b) {
  return (a + b - 1) / b;
}

constexpr size_t roundUp(size_t a, size_t multiple) {
  return divideUp(a, multiple) * multiple;
}

bool circles(Kind kind) {
  return kind == Kind::allReduce || kind == Kind::reduceScatter || kind == Kind::allGather;
}

// This rank's place in the operation's chain, and the chain's length.
struct Position {
  int index;
  int length;
};

Position chainPosition(const Operation& operation, int rank, int nRanks) {
  switch (operation.kind) {
    case Kind::send:
      return {0, 2};
    case Kind::receive:
      return {1, 2};
    case Kind::broadcast:
      return {(rank - operation.peer + nRanks) % nRanks, nRanks};
    case Kind::reduce:
      return {(rank - operation.peer - 1 + nRanks) % nRanks, nRanks};
    default:
      return {0, 1};
  }
}

}  // namespace

size_t sliceBytes(size_t nBytes) {
  const size_t wanted = divideUp(nBytes, kSlicesPerChunk);
  return roundUp(std::clamp(wanted, kShortestSliceBytes, kSlotBytes), kAlignment);
}

Schedule::Schedule(const Operation& operation, int rank, int nRanks)
    : rank_(rank), nRanks_(nRanks), circles_(circles(operation.kind) && nRanks > 1) {
  if (circles_) {
    planCircle(operation);
  } else {
    planChain(operation);
  }
}

void Schedule::planCircle(const Operation& operation) {
  const bool isAllReduce = operation.kind == Kind::allReduce;
  const size_t width = elementBytes(operation.type);
  const size_t ranks = static_cast<size_t>(nRanks_);
  chunkCount_ = operation.count;
  if (isAllReduce) {
    chunkCount_ = roundUp(divideUp(operation.count, ranks), kAlignment / width);
  }
  totalCount_ = isAllReduce ? operation.count : ranks * chunkCount_;
  inputStride_ = operation.kind == Kind::allGather ? 0 : chunkCount_;
  outputStride_ = operation.kind == Kind::reduceScatter ? 0 : chunkCount_;
  shift_ = operation.kind == Kind::reduceScatter ? 1 : 0;
  reduceHops_ = operation.kind == Kind::allGather ? 0 : ranks - 1;
  hops_ = isAllReduce ? 2 * (ranks - 1) : ranks - 1;

  // All rounds are equal: the slices of a chunk are spread over a multiple of the window.
  const size_t chunkBytes = chunkCount_ * width;
  const size_t nSlices = std::max<size_t>(1, divideUp(chunkBytes, sliceBytes(chunkBytes)));
  window_ = std::min(nSlices, kSlots);
  const size_t rounds = divideUp(nSlices, window_);
  sliceCount_ = roundUp(divideUp(chunkBytes, rounds * window_), kAlignment) / width;
  nMessages_ = rounds * hops_ * window_;
  nReceives_ = nMessages_;
  nSends_ = nMessages_;
  nSteps_ = nMessages_ + window_;
}

void Schedule::planChain(const Operation& operation) {
  const size_t width = elementBytes(operation.type);
  const Position position = chainPosition(operation, rank_, nRanks_);
  isFirst_ = position.index == 0;
  isLast_ = position.index == position.length - 1;
  combines_ = operation.kind == Kind::reduce;
  storesAll_ = operation.kind == Kind::broadcast;
  chunkCount_ = operation.count;
  totalCount_ = operation.count;
  sliceCount_ = sliceBytes(operation.count * width) / width;
  nSteps_ = std::max<size_t>(1, divideUp(operation.count, sliceCount_));
  nReceives_ = isFirst_ ? 0 : nSteps_;
  nSends_ = isLast_ ? 0 : nSteps_;
}

Step Schedule::circleStep(size_t index) const {
  Step step;
  step.receives = index >= window_;
  step.sends = index < nMessages_;
  if (step.receives) {
    const size_t message = index - window_;
    const size_t hop = hopOf(message);
    step.received = circleRange(message, (rank_ + nRanks_ - 1) % nRanks_);
    step.combines = hop < reduceHops_;
    step.finishes = hop + 1 == reduceHops_;
    step.stores = hop + 1 >= reduceHops_;
  }
  if (step.sends) {
    step.forwards = hopOf(index) > 0;
    step.keeps = !step.forwards && reduceHops_ == 0;
    if (!step.forwards) step.fresh = circleRange(index, rank_);
  }
  return step;
}

Step Schedule::chainStep(size_t index) const {
  Step step;
  const Range range = sliceRange(index, chunkCount_);
  step.receives = !isFirst_;
  step.sends = !isLast_;
  if (step.receives) {
    step.received = range;
    step.combines = combines_;
    step.finishes = combines_ && isLast_;
    step.stores = storesAll_ || isLast_;
    step.forwards = step.sends;
  } else {
    step.fresh = range;
    step.keeps = storesAll_ || isLast_;
  }
  return step;
}

// Slice number `slice` of a chunk of `chunkCount` elements; empty past its end.
Range Schedule::sliceRange(size_t slice, size_t chunkCount) const {
  const size_t offset = std::min(slice * sliceCount_, chunkCount);
  return {offset, offset, std::min(sliceCount_, chunkCount - offset)};
}

// Where the slice lies that `sender` sends as its message number `message`.
Range Schedule::circleRange(size_t message, int sender) const {
  const size_t hop = hopOf(message);
  const size_t ranks = static_cast<size_t>(nRanks_);
  const size_t chunk = (sender - shift_ + 2 * ranks - hop % ranks) % ranks;
  const size_t round = message / (hops_ * window_);
  const size_t slice = round * window_ + message % window_;
  const size_t start = chunk * chunkCount_;
  const size_t length = std::min(chunkCount_, totalCount_ - std::min(totalCount_, start));
  Range range = sliceRange(slice, length);
  range.input += chunk * inputStride_;
  range.output += chunk * outputStride_;
  return range;
}

}  // namespace cinch::emulator
