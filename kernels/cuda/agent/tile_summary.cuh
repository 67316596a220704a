// Summaries of the blocks and groups of a tile, merged in the codec's tree (kernels/codec/codec.h).
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

// `isShort`: one copy of the code for whole tiles and others.
template <BlockCodec C, bool isShort>
class TileSummaries {
 public:
  // Of this lane's octets; all octets of a block that has values exist where `extent` says so. All
  // lanes of the warp make it together.
  __device__ TileSummaries(const TileValues& values, TileExtent extent) {
    if (!isShort && extent.isWhole()) {
      makeOctets(values, [](uint32_t, uint32_t) { return true; });
    } else {
      if (!isShort) markCold();
      makeOctets(values, [&](uint32_t slot, uint32_t i) { return i < extent.ofSlot(slot); });
    }
  }

  // Of the blocks of slots 0 and 1, and of slots 2 and 3.
  struct OfBlocks {
    typename C::Summary at[2];
  };
  __device__ OfBlocks ofBlocks(uint32_t blockElems) const {
    if constexpr (kIsEmpty)
      return {};
    else
      return mergedOctets(blockElems);
  }

  // Of the group of an octet, where blocks have groups: 2 or 4 octets, one slot of as many lanes.
  __device__ typename C::Summary ofGroup(uint32_t slot) const {
    constexpr uint32_t kLanes = C::kGroupElems / kOctetElems;
    static_assert(kLanes <= kLanesPerRow);
    Merged group = octet_[slot];
#pragma unroll
    for (uint32_t distance = kLanes / 2; distance > 0; distance /= 2)
      group = group.mergedWith(fromLane(group, distance));
    return group.result();
  }

 private:
  static constexpr bool kIsEmpty = std::is_empty_v<typename C::Summary>;
  using Merged = typename SummaryOnDevice<typename C::Summary>::Type;

  __device__ OfBlocks mergedOctets(uint32_t blockElems) const {
    Merged even[2] = {octet_[0], octet_[2]}, odd[2] = {octet_[1], octet_[3]};
    if (blockElems == 256)
#pragma unroll
      for (uint32_t i = 0; i < 2; ++i) {
        even[i] = even[i].mergedWith(fromLane(even[i], kLanesPerRow));
        odd[i] = odd[i].mergedWith(fromLane(odd[i], kLanesPerRow));
      }
    if (blockElems == 64)
      return {mergedOverLanes(even[0].mergedWith(odd[0])).result(),
              mergedOverLanes(even[1].mergedWith(odd[1])).result()};
    const Merged all = even[0].mergedWith(even[1]).mergedWith(odd[0].mergedWith(odd[1]));
    const typename C::Summary block = mergedOverLanes(all).result();
    return {block, block};
  }

  template <class Exists>
  __device__ void makeOctets(const TileValues& values, const Exists& exists) {
    if constexpr (!kIsEmpty)
#pragma unroll
      for (uint32_t slot = 0; slot < kSlots; ++slot) {
        Merged leaf[kOctetElems];
#pragma unroll
        for (uint32_t i = 0; i < kOctetElems; ++i)
          leaf[i] = exists(slot, i) ? Merged::of(values.at[slot][i]) : Merged{};
#pragma unroll
        for (uint32_t distance = kOctetElems / 2; distance > 0; distance /= 2)
#pragma unroll
          for (uint32_t i = 0; i < distance; ++i) leaf[i] = leaf[i].mergedWith(leaf[i + distance]);
        octet_[slot] = leaf[0];
      }
  }

  __device__ static Merged mergedOverLanes(Merged block) {
#pragma unroll
    for (uint32_t distance = kLanesPerRow / 2; distance > 0; distance /= 2)
      block = block.mergedWith(fromLane(block, distance));
    return block;
  }

  Merged octet_[kSlots];
};

}  // namespace cinch::cuda
