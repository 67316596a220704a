// What one thread does in a sum launch: each warp adds up the parts of a tile at a time.
#pragma once

#include "kernels/core/sum_parts.h"
#include "kernels/cuda/agent/tile_elements.cuh"

namespace cinch::cuda {

template <ElementType type>
class SumAgent {
 public:
  __device__ explicit SumAgent(const SumLaunch& launch)
      : launch_(launch), sum_(ElementType::fp32, launch.sum, 0) {}

  __device__ __forceinline__ void run() {
    for (TileWalk walk(wire::ShardLayout::tilesOf(launch_.count)); !walk.atEnd(); walk.advance()) {
      const TileExtent extent = extentOf(walk.tile);
      sum_.store(sumOf(walk.tile, extent), walk.tile, extent);
    }
  }

 private:
  __device__ TileExtent extentOf(uint32_t tile) const {
    const uint64_t left = launch_.count - uint64_t{tile} * kTileElems;
    return {left < kTileElems ? static_cast<uint32_t>(left) : kTileElems};
  }

  __device__ TileValues partOf(uint32_t position, uint32_t tile, TileExtent extent) const {
    const Elements<type> part(type, core::partAt(launch_, position), 0);
    return part.valuesOf(part.load(tile, extent), {});
  }

  __device__ TileValues sumOf(uint32_t tile, TileExtent extent) const {
    TileValues sum = partOf(0, tile, extent);
#pragma unroll 1
    for (uint32_t position = 1; position < launch_.nParts; ++position) {
      const TileValues part = partOf(position, tile, extent);
      forEachValue([&](uint32_t slot, uint32_t i) { sum.at[slot][i] += part.at[slot][i]; });
    }
    return sum;
  }

  const SumLaunch& launch_;
  Elements<ElementType::fp32> sum_;
};

}  // namespace cinch::cuda
