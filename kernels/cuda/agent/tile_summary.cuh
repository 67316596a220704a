// Summaries of the blocks of a tile, merged in the codec's tree (kernels/codec/codec.h).
#pragma once

#include <type_traits>

#include "kernels/core/value_range.h"
#include "kernels/cuda/agent/instructions.cuh"
#include "kernels/cuda/agent/warp_tile.cuh"

namespace cinch::cuda {

// How the device makes a summary of type S: as the codec does, unless there is a shorter way to the
// same result.
template <class S>
struct Summary {
  S value;

  __device__ static Summary of(float each) { return {S::of(each)}; }
  __device__ Summary mergedWith(Summary other) const { return {value.mergedWith(other.value)}; }
  __device__ S result() const { return value; }
};

// Ordered integers are made of floats once, at the end. Of zeros any may count as the smallest: the
// codec makes no difference.
struct FloatRange {
  float low = __builtin_inff();
  float high = -__builtin_inff();

  __device__ static FloatRange of(float each) { return {each, each}; }
  __device__ FloatRange mergedWith(FloatRange other) const {
    return {minimumOrNan(low, other.low), maximumOrNan(high, other.high)};
  }
  __device__ core::ValueRange result() const {
    return {core::orderedBits(low), core::orderedBits(high)};
  }
};
struct FloatMagnitude {
  float largest = 0.0f;

  __device__ static FloatMagnitude of(float each) { return {fabsf(each)}; }
  __device__ FloatMagnitude mergedWith(FloatMagnitude other) const {
    return {maximumOrNan(largest, other.largest)};
  }
  __device__ core::Magnitude result() const { return {bitsOfFloat(largest)}; }
};

template <class S>
struct SummaryOnDevice {
  using Type = Summary<S>;
};
template <>
struct SummaryOnDevice<core::ValueRange> {
  using Type = std::conditional_t<kHasNanMinimum, FloatRange, Summary<core::ValueRange>>;
};
template <>
struct SummaryOnDevice<core::Magnitude> {
  using Type = std::conditional_t<kHasNanMinimum, FloatMagnitude, Summary<core::Magnitude>>;
};

// That of the lane `distance` away, word by word.
template <class S>
__device__ S fromLane(const S& summary, uint32_t distance) {
  struct Words {
    uint32_t at[sizeof(S) / sizeof(uint32_t)];
  } words = __builtin_bit_cast(Words, summary);
#pragma unroll
  for (uint32_t& word : words.at) word = __shfl_xor_sync(kAllLanes, word, distance);
  return __builtin_bit_cast(S, words);
}

// Of an octet; the values for which `exists(i)` is false change nothing.
template <class Merged, class Exists>
__device__ Merged octetSummary(const float (&values)[kOctetElems], const Exists& exists) {
  Merged leaf[kOctetElems];
#pragma unroll
  for (uint32_t i = 0; i < kOctetElems; ++i) leaf[i] = exists(i) ? Merged::of(values[i]) : Merged{};
#pragma unroll
  for (uint32_t distance = kOctetElems / 2; distance > 0; distance /= 2)
#pragma unroll
    for (uint32_t i = 0; i < distance; ++i) leaf[i] = leaf[i].mergedWith(leaf[i + distance]);
  return leaf[0];
}

// Octet 4 * slot + lane of a block: those at distance 8 and 4 are slots of this lane, those at
// distance 2 and 1 are other lanes'.
template <class Merged, class Exists>
__device__ Merged rowSummary(const TileValues& values, const Exists& exists) {
  Merged octet[kSlots];
#pragma unroll
  for (uint32_t slot = 0; slot < kSlots; ++slot)
    octet[slot] =
        octetSummary<Merged>(values.at[slot], [&](uint32_t i) { return exists(slot, i); });
  Merged block = octet[0].mergedWith(octet[2]).mergedWith(octet[1].mergedWith(octet[3]));
#pragma unroll
  for (uint32_t distance = kLanesPerRow / 2; distance > 0; distance /= 2)
    block = block.mergedWith(fromLane(block, distance));
  return block;
}

// Of this lane's block. All lanes of the warp make it together. `isShort`: one copy of the code for
// whole tiles and others.
template <BlockCodec C, bool isShort>
__device__ typename C::Summary blockSummary(const TileValues& values, TileExtent extent) {
  if constexpr (std::is_empty_v<typename C::Summary>) {
    return {};
  } else {
    using Merged = typename SummaryOnDevice<typename C::Summary>::Type;
    if (!isShort && extent.isWhole())
      return rowSummary<Merged>(values, [](uint32_t, uint32_t) { return true; }).result();
    if (!isShort) markCold();
    return rowSummary<Merged>(values,
                              [&](uint32_t slot, uint32_t i) { return i < extent.ofSlot(slot); })
        .result();
  }
}

}  // namespace cinch::cuda
