// The values of a shard, a tile at a time: from elements in memory to fp32, and back.
#pragma once

#include "kernels/core/input_factor.h"
#include "kernels/cuda/agent/tile_array.cuh"

namespace cinch::cuda {

// The elements times `factor`.
template <ElementType type>
__device__ TileValues toValues(const TileWords<StorageOf<type>>& words, float factor) {
  TileValues values;
  forEachValue([&](uint32_t slot, uint32_t i) {
    values.at[slot][i] = valueOf<type>(words.ofSlot[slot], i) * factor;
  });
  return values;
}

template <ElementType type>
__device__ bool areFinite(const TileWords<StorageOf<type>>& words) {
  if constexpr (type == ElementType::fp32) {
    float sum = 0.0f;  // NaN for ever after one that is not
#pragma unroll
    for (const auto& octet : words.ofSlot)
#pragma unroll
      for (uint32_t word : octet.at) sum = fmaf(floatOfBits(word), 0.0f, sum);
    return sum == 0.0f;
  } else {
    constexpr uint32_t kExponents = ElementTraits<type>::kInfinity * 0x10001u;
    constexpr uint32_t kSigns = 0x80008000;
    uint32_t overflow = 0;  // the sign bits of elements with all exponent bits set
#pragma unroll
    for (const auto& octet : words.ofSlot)
#pragma unroll
      for (uint32_t word : octet.at) overflow |= (word & kExponents) + (kSigns - kExponents);
    return (overflow & kSigns) == 0;
  }
}

// Rounds values to their type and writes those that exist. Returns whether these are finite as
// stored. All lanes of the warp call it together.
template <ElementType type>
__device__ bool storeValues(TileValues values, TileArray<StorageOf<type>>& array, uint32_t tile,
                            TileExtent extent) {
  if (!extent.isWhole()) {
    markCold();
    forEachValue([&](uint32_t slot, uint32_t i) {
      if (i >= extent.ofSlot(slot)) values.at[slot][i] = 0.0f;
    });
  }
  TileWords<StorageOf<type>> words;
#pragma unroll
  for (uint32_t slot = 0; slot < kSlots; ++slot)
    words.ofSlot[slot] = roundedButNan<type>(values.at[slot]);
  const bool allFinite = areFinite<type>(words);
  if (!allFinite) {
    markCold();
#pragma unroll
    for (auto& octet : words.ofSlot) makeNanCanonical<type>(octet);
  }
  array.store(tile, extent, words);
  return allFinite;
}

// Elements of a type that the kernel is compiled for. Words are what a load brings, to be made
// values of when they are needed.
template <ElementType type>
class Elements {
 public:
  static constexpr bool kIsNarrow = sizeof(StorageOf<type>) < sizeof(float);
  using Words = TileWords<StorageOf<type>>;

  // Of the shard that begins at element `first` of `memory`.
  __device__ Elements(ElementType, const void* memory, uint64_t first)
      : array_(static_cast<const StorageOf<type>*>(memory) + first) {}

  __device__ Words load(uint32_t tile, TileExtent extent) const {
    return array_.load(tile, extent);
  }
  __device__ TileValues valuesOf(const Words& words, const InputFactor& factor) const {
    return toValues<type>(words, core::valueOf<type>(factor));
  }
  // As storeValues().
  __device__ bool store(const TileValues& values, uint32_t tile, TileExtent extent) {
    return storeValues<type>(values, array_, tile, extent);
  }

 private:
  TileArray<StorageOf<type>> array_;
};

// Returns call.operator()<type>().
template <class Call>
__device__ auto withType(ElementType type, const Call& call) {
  switch (type) {
    case ElementType::fp16:
      return call.template operator()<ElementType::fp16>();
    case ElementType::bf16:
      return call.template operator()<ElementType::bf16>();
    default:
      return call.template operator()<ElementType::fp32>();
  }
}

// Elements of the type that a launch names.
class AnyElements {
 public:
  static constexpr bool kIsNarrow = false;
  using Words = TileValues;

  __device__ AnyElements(ElementType type, const void* memory, uint64_t first)
      : type_(type), memory_(memory), first_(first) {}

  __device__ Words load(uint32_t tile, TileExtent extent) const {
    return withType(type_, [&]<ElementType type>() {
      return toValues<type>(array<type>().load(tile, extent), 1.0f);
    });
  }
  __device__ TileValues valuesOf(const Words& words, const InputFactor& factor) const {
    const float number =
        withType(type_, [&]<ElementType type>() { return core::valueOf<type>(factor); });
    TileValues values;
    forEachValue(
        [&](uint32_t slot, uint32_t i) { values.at[slot][i] = words.at[slot][i] * number; });
    return values;
  }
  __device__ bool store(const TileValues& values, uint32_t tile, TileExtent extent) {
    return withType(type_, [&]<ElementType type>() {
      auto elements = array<type>();
      return storeValues<type>(values, elements, tile, extent);
    });
  }

 private:
  template <ElementType type>
  __device__ TileArray<StorageOf<type>> array() const {
    return TileArray<StorageOf<type>>(static_cast<const StorageOf<type>*>(memory_) + first_);
  }

  ElementType type_;
  const void* memory_;
  uint64_t first_;
};

}  // namespace cinch::cuda
