// What the register allocator has to leave room for: resident CTAs on an SM, which leave 96, 128,
// 168 or 255 registers to each thread.
#pragma once

#include "kernels/cuda/agent/tile_writer.cuh"

namespace cinch::cuda {

inline constexpr uint32_t kCtasForCodes = 5;  // a tile of 16-bit elements, and the next one
inline constexpr uint32_t kCtasForSums = 4;   // two tiles in fp32
inline constexpr uint32_t kCtasForMore = 3;   // three
inline constexpr uint32_t kCtasForAnything = 2;

template <class Elements, class Codecs, Kept kept>
constexpr uint32_t ctasForEncode() {
  if (kept == Kept::codes) return Elements::kIsNarrow ? kCtasForCodes : kCtasForMore;
  return Codecs::kMayRotate ? kCtasForAnything : kCtasForMore;
}

template <class Codecs>
inline constexpr uint32_t kCtasForReduce = Codecs::kMayRotate ? kCtasForAnything : kCtasForMore;

}  // namespace cinch::cuda
