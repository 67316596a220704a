// Half a warp works on one block: lane l of 16 holds values 8l to 8l + 7 in registers, which are 16
// or 32 bytes of input and 2 to 8 bytes of codes. A warp walks two neighbouring blocks at a time;
// tiles have an even number of blocks, so both halves always take part in a shuffle.
#pragma once

#include "kernels/core/block_codec.h"
#include "kernels/cuda/tuning/codec_tuning.h"
#include "kernels/wire/tile_layout.h"

namespace cinch::cuda {

inline constexpr uint32_t kWarpThreads = 32;
inline constexpr uint32_t kValuesPerLane = wire::kBlockElems / kLanesPerBlock;
static_assert(kValuesPerLane == 8 && wire::kTileBlocks % 2 == 0);

inline constexpr uint32_t kAllLanes = 0xffffffff;

// This thread's lane in its block.
__device__ inline uint32_t laneOfBlock() {
  return threadIdx.x % kLanesPerBlock;
}

__device__ inline bool isFirstWarpOfRow() {
  return blockIdx.x == 0 && threadIdx.x < kWarpThreads;
}
__device__ inline bool isFirstOfRow() {
  return blockIdx.x == 0 && threadIdx.x == 0;
}

// The blocks that this thread's half warp works on, when a grid row shares `nBlocks` blocks. 32
// bits are enough for the blocks of a shard (dispatch refuses more), and cheaper.
struct BlockWalk {
  uint32_t block;
  uint32_t stride;
  uint32_t end;

  __device__ explicit BlockWalk(uint64_t nBlocks)
      : block((blockIdx.x * blockDim.x + threadIdx.x) / kLanesPerBlock),
        stride(gridDim.x * blockDim.x / kLanesPerBlock),
        end(static_cast<uint32_t>(nBlocks)) {}

  __device__ bool atEnd() const { return block >= end; }
  __device__ void advance() { block += stride; }
};

// This lane's first value of block `block`, counted from the first of the shard.
__device__ inline uint64_t firstOfLane(uint32_t block) {
  return uint64_t{block} * wire::kBlockElems + laneOfBlock() * kValuesPerLane;
}

// How many values a shard has, in blocks.
class ShardExtent {
 public:
  __device__ explicit ShardExtent(uint64_t nValues)
      : nWhole_(static_cast<uint32_t>(nValues / wire::kBlockElems)),
        nTail_(static_cast<uint32_t>(nValues % wire::kBlockElems)) {}

  // Blocks that have values.
  __device__ uint32_t nBlocks() const { return nWhole_ + (nTail_ > 0); }

  // How many of this lane's values of a block exist.
  __device__ uint32_t valuesOfLane(uint32_t block) const {
    if (block < nWhole_) return kValuesPerLane;
    const uint32_t before = laneOfBlock() * kValuesPerLane;
    if (block > nWhole_ || before >= nTail_) return 0;
    return nTail_ - before < kValuesPerLane ? nTail_ - before : kValuesPerLane;
  }

 private:
  uint32_t nWhole_;
  uint32_t nTail_;
};

// The range of a whole block from the ranges of its lanes.
__device__ inline core::ValueRange rangeOfBlock(core::ValueRange range) {
#pragma unroll
  for (uint32_t distance = kLanesPerBlock / 2; distance > 0; distance /= 2) {
    range.low = min(range.low, __shfl_xor_sync(kAllLanes, range.low, distance));
    range.high = max(range.high, __shfl_xor_sync(kAllLanes, range.high, distance));
  }
  return range;
}

}  // namespace cinch::cuda
