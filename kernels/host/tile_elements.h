// Runs of values as fp32, and how elements of a type become them and are made of them. In loops
// that compilers turn into vector code: fixed length, local arrays, no branches. Every value goes
// through the functions of element/, so the results are theirs on any instruction set.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/element/element_traits.h"

namespace cinch::host {

using wire::kBlockElems;
using wire::kTileElems;

// The values of one tile, on their way.
struct alignas(64) TileValues {
  float at[kTileElems];
};

// Calls `use` with the number of values of a tile: as a constant where the tile is whole, so that
// the loops inside have a fixed length.
template <class Use>
inline auto withLength(uint32_t nValues, const Use& use) {
  return nValues == kTileElems ? use(kTileElems) : use(nValues);
}

// Asks for memory that will be read or written next: a tile is too short for the CPU to see streams
// in time. Any address is allowed. Inline always, and so is what only calls this: GCC leaves out
// calls of functions that do nothing but prefetch.
[[gnu::always_inline]] inline void prefetch(const void* memory, uint64_t nBytes) {
  constexpr uint64_t kLine = 64;
  for (uint64_t at = 0; at < nBytes; at += kLine)
    __builtin_prefetch(static_cast<const uint8_t*>(memory) + at);
}

template <ElementType type>
inline void loadAs(const void* input, uint32_t nValues, float* values) {
  using Traits = ElementTraits<type>;
  const auto* elements = static_cast<const typename Traits::Storage*>(input);
  for (uint32_t i = 0; i < nValues; ++i) values[i] = Traits::toFloat(elements[i]);
}

// Fills a tile: zeros follow the values.
inline void loadElements(ElementType type, const void* input, uint32_t nValues, float* values) {
  withLength(nValues, [&](uint32_t n) {
    switch (type) {
      case ElementType::fp32:
        std::memcpy(values, input, n * sizeof(float));
        break;
      case ElementType::fp16:
        loadAs<ElementType::fp16>(input, n, values);
        break;
      case ElementType::bf16:
        loadAs<ElementType::bf16>(input, n, values);
        break;
    }
    std::fill(values + n, values + kTileElems, 0.0f);
  });
}

// Stores the values; returns whether all of them are finite as stored.
template <ElementType type>
inline bool storeAs(const float* values, uint32_t nValues, void* output) {
  using Traits = ElementTraits<type>;
  auto* elements = static_cast<typename Traits::Storage*>(output);
  uint32_t nonFinite = 0;
  for (uint32_t i = 0; i < nValues; ++i) {
    elements[i] = Traits::fromFloat(values[i]);
    nonFinite |= Traits::isStorageFinite(elements[i]) ? 0u : 1u;
  }
  return nonFinite == 0;
}

inline bool storeElements(ElementType type, const float* values, uint32_t nValues, void* output) {
  return withLength(nValues, [&](uint32_t n) {
    switch (type) {
      case ElementType::fp32:
        return storeAs<ElementType::fp32>(values, n, output);
      case ElementType::fp16:
        return storeAs<ElementType::fp16>(values, n, output);
      default:
        return storeAs<ElementType::bf16>(values, n, output);
    }
  });
}

inline void fillTile(float* values, float value) {
  for (uint32_t i = 0; i < kTileElems; ++i) values[i] = value;
}

inline void multiply(TileValues& values, float factor) {
  if (factor == 1.0f) return;  // changes nothing, and is the usual one
  for (float& each : values.at) each *= factor;
}

// `sum` may be one of the two.
inline void addTiles(const float* a, const float* b, float* sum) {
  for (uint32_t i = 0; i < kTileElems; ++i) sum[i] = a[i] + b[i];
}

}  // namespace cinch::host
