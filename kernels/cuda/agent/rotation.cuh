// The rotation of a tile's blocks of 128 (kernels/core/rotation.h): four neighbouring lanes hold
// one. Value i of an octet has bits 0 to 2 of the distances, the lane bits 3 and 4, the slot 5
// and 6.
#pragma once

#include "kernels/core/rotation.h"
#include "kernels/cuda/agent/warp_tile.cuh"

namespace cinch::cuda {

static_assert(core::kRotationElems == kRowOctets * kOctetElems);

__device__ inline void butterfly(float& a, float& b) {
  const float sum = a + b, difference = a - b;
  a = sum;
  b = difference;
}

__device__ inline void butterfliesOfOctets(TileValues& values) {
#pragma unroll
  for (uint32_t distance = 1; distance < kOctetElems; distance *= 2)
    forEachValue([&](uint32_t slot, uint32_t i) {
      if ((i & distance) == 0) butterfly(values.at[slot][i], values.at[slot][i + distance]);
    });
}

// Of the two lanes the lower keeps the sum. Multiplying by 1 or -1 is exact, so that the result is
// rounded once, like any sum.
__device__ inline void butterfliesOfLanes(TileValues& values) {
#pragma unroll
  for (uint32_t distance = 1; distance < kLanesPerRow; distance *= 2) {
    const float sign = laneOfWarp() & distance ? -1.0f : 1.0f;
    forEachValue([&](uint32_t slot, uint32_t i) {
      const float other = __shfl_xor_sync(kAllLanes, values.at[slot][i], distance);
      values.at[slot][i] = fmaf(values.at[slot][i], sign, other);
    });
  }
}

__device__ inline void butterfliesOfSlots(TileValues& values) {
#pragma unroll
  for (uint32_t distance = 1; distance < kSlots; distance *= 2)
    forEachValue([&](uint32_t slot, uint32_t i) {
      if ((slot & distance) == 0) butterfly(values.at[slot][i], values.at[slot + distance][i]);
    });
}

__device__ inline void butterflies(TileValues& values) {
  butterfliesOfOctets(values);
  butterfliesOfLanes(values);
  butterfliesOfSlots(values);
}

// `tile` is counted through the shard.
__device__ inline void changeSigns(TileValues& values, uint32_t key, uint32_t tile) {
  uint32_t signs[kSlots];
#pragma unroll
  for (uint32_t slot = 0; slot < kSlots; ++slot)
    signs[slot] = core::octetSigns(key, tile * kTileOctets + octetOf(slot));
  forEachValue([&](uint32_t slot, uint32_t i) {
    values.at[slot][i] = core::withSign(values.at[slot][i], signs[slot], i);
  });
}

// All lanes of the warp call these together.
__device__ inline void rotate(TileValues& values, uint32_t key, uint32_t tile) {
  changeSigns(values, key, tile);
  forEachValue([&](uint32_t slot, uint32_t i) { values.at[slot][i] *= core::kRotationScale; });
  butterflies(values);
}
__device__ inline void rotateBack(TileValues& values, uint32_t key, uint32_t tile) {
  butterflies(values);
  changeSigns(values, key, tile);
}

}  // namespace cinch::cuda
