// A warp works on one tile at a time, 32 values to a lane. Four neighbouring lanes hold 128 values,
// in turns of an octet: slot s of lane l has octet 16 * (l / 4) + 4 * s + l % 4 of the tile. So a
// block's summary is made in registers and few shuffles, its metadata once for 32 values, and
// the lanes of a block touch whole memory sectors together.
#pragma once

#include "kernels/codec/codec.h"
#include "kernels/cuda/agent/cta.h"

namespace cinch::cuda {

inline constexpr uint32_t kWarpThreads = 32;
inline constexpr uint32_t kAllLanes = 0xffffffff;
inline constexpr uint32_t kSlots = 4;  // octets of a lane
inline constexpr uint32_t kLanesPerRow = 4;
inline constexpr uint32_t kRowOctets = kSlots * kLanesPerRow;  // of 128 values
static_assert(kWarpThreads * kSlots == wire::kTileOctets);

using wire::kOctetElems;
using wire::kTileElems;
using wire::kTileOctets;

__device__ inline uint32_t laneOfWarp() {
  return threadIdx.x % kWarpThreads;
}

// The octet of the tile that this lane has in a slot.
__device__ inline uint32_t octetOf(uint32_t slot) {
  const uint32_t lane = laneOfWarp();
  return lane / kLanesPerRow * kRowOctets + slot * kLanesPerRow + lane % kLanesPerRow;
}

__device__ inline bool isFirstWarpOfRow() {
  return blockIdx.x == 0 && threadIdx.x < kWarpThreads;
}
__device__ inline bool isFirstOfRow() {
  return blockIdx.x == 0 && threadIdx.x == 0;
}

// The tiles that this thread's warp works on, when a grid row shares `nTiles` tiles. 32 bits are
// enough for the tiles of a shard (dispatch refuses more), and cheaper.
struct TileWalk {
  uint32_t tile;
  uint32_t stride;
  uint32_t end;

  __device__ explicit TileWalk(uint64_t nTiles)
      : tile((blockIdx.x * blockDim.x + threadIdx.x) / kWarpThreads),
        stride(gridDim.x * blockDim.x / kWarpThreads),
        end(static_cast<uint32_t>(nTiles)) {}

  __device__ bool atEnd() const { return tile >= end; }
  __device__ void advance() { tile += stride; }
};

// How many values of a tile exist.
struct TileExtent {
  uint32_t nValues;

  __device__ bool isWhole() const { return nValues == kTileElems; }
  // Of `nElems` values of the tile, from `first` on.
  __device__ uint32_t among(uint32_t first, uint32_t nElems) const {
    if (first >= nValues) return 0;
    return nValues - first < nElems ? nValues - first : nElems;
  }
  __device__ uint32_t ofSlot(uint32_t slot) const {
    return among(octetOf(slot) * kOctetElems, kOctetElems);
  }
};

// Where a shard is and how long, with one division for all of it.
struct ShardView {
  uint32_t shard;
  uint64_t strideBytes;
  uint64_t firstTile;
  uint64_t firstElem;
  uint64_t nValues;

  __device__ ShardView(const wire::ShardLayout& layout, uint32_t theShard) : shard(theShard) {
    const wire::Cuts cuts(layout);
    const uint64_t longest = cuts.tile(layout.endPart(0)) - cuts.tile(layout.firstPart(0));
    strideBytes = layout.isMixed() ? layout.mixedStride
                                   : wire::kHeaderBytes + longest * layout.codec.tileBytes();
    firstTile = cuts.tile(layout.firstPart(shard));
    firstElem = cuts.elem(layout.firstPart(shard));
    nValues = cuts.elem(layout.endPart(shard)) - firstElem;
  }

  // Tiles that have values.
  __device__ uint64_t nTiles() const { return wire::ShardLayout::tilesOf(nValues); }
  // Of such a tile.
  __device__ TileExtent ofTile(uint32_t tile) const {
    const uint64_t left = nValues - uint64_t{tile} * kTileElems;
    return {left < kTileElems ? static_cast<uint32_t>(left) : kTileElems};
  }
};

// This lane's values of a tile, by slot.
struct TileValues {
  float at[kSlots][kOctetElems];
};

// Calls visit(slot, index) for all 32.
template <class Visit>
__device__ void forEachValue(const Visit& visit) {
#pragma unroll
  for (uint32_t slot = 0; slot < kSlots; ++slot)
#pragma unroll
    for (uint32_t i = 0; i < kOctetElems; ++i) visit(slot, i);
}

__device__ inline TileValues filled(float value) {
  TileValues values;
  forEachValue([&](uint32_t slot, uint32_t i) { values.at[slot][i] = value; });
  return values;
}

}  // namespace cinch::cuda
