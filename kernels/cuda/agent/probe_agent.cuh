// What one thread does in a probe launch, which the encode after it waits for: a warp for each of
// the probed tiles, spread over the device's SMs, since one alone would be as long at it as the
// encode of a few MB is. The last CTA to finish compares what all have found.
#pragma once

#include "kernels/core/input_factor.h"
#include "kernels/core/probe.h"
#include "kernels/cuda/agent/instructions.cuh"
#include "kernels/cuda/agent/warp_tile.cuh"

namespace cinch::cuda {

inline constexpr uint32_t kMaxProbeCtas = kMaxProbes / kTilesPerCta;
static_assert(core::kProbeLanes == kWarpThreads && kMaxProbes <= kThreadsPerCta);

// Sums the squares of a tile's values, each lane those 32 apart: any alignment will do.
template <class ValueAt>
__device__ float sumOfSquares(uint32_t nValues, const ValueAt& valueAt) {
  float sum = 0.0f;
  const auto add = [&](uint32_t index) {
    const float value = valueAt(index);
    sum += value * value;
  };
  if (nValues == kTileElems) {
    // Without a branch, so that many loads are under way together.
#pragma unroll 16
    for (uint32_t first = 0; first < kTileElems; first += kWarpThreads) add(first + laneOfWarp());
  } else {
#pragma unroll 1
    for (uint32_t index = laneOfWarp(); index < nValues; index += kWarpThreads) add(index);
  }
#pragma unroll
  for (uint32_t distance = kWarpThreads / 2; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(kAllLanes, sum, distance);
  return sum;
}

// What the threads of the last CTA tell one another.
struct ProbeBoard {
  ProbePower power[kMaxProbes];
  float shift[kMaxProbes];
  float median;
};

template <ElementType type>
class ProbeAgent {
 public:
  __device__ explicit ProbeAgent(const ProbeLaunch& launch)
      : launch_(launch), tiles_(launch.call.layout.count), board_(sharedMemory<ProbeBoard>()) {}

  __device__ __forceinline__ void run() {
    for (TileWalk walk(tiles_.size()); !walk.atEnd(); walk.advance()) measure(walk.tile);
    if (isLast()) compare();
  }

 private:
  using Storage = typename ElementTraits<type>::Storage;

  __device__ void measure(uint32_t probe) {
    const uint64_t first = tiles_.tile(probe) * kTileElems;
    const uint32_t nValues = tiles_.nValues(probe);
    const ProbePower power = {inputPower(first, nValues), residualPower(first, nValues)};
    if (laneOfWarp() == 0) launch_.probe->powers[probe] = power;
  }

  // Whether this CTA is the last one to come here; it then sees what all have measured.
  __device__ bool isLast() const {
    __syncthreads();
    bool isLast = false;
    if (threadIdx.x == 0) {
      __threadfence();
      isLast = atomicAdd(&launch_.probe->ticket, 1u) + 1 == gridDim.x;
      __threadfence();
      if (isLast) atomicExch(&launch_.probe->ticket, 0u);
    }
    return countOf(isLast) > 0;
  }

  // Thread i has probe i, if there is one.
  __device__ void compare() {
    const uint32_t probe = threadIdx.x;
    const bool exists = probe < tiles_.size();
    float level = core::kNoLevel, before = core::kNoLevel;
    if (exists) {
      board_.power[probe] = launch_.probe->powers[probe];
      level = core::levelOf(board_.power[probe].input);
      before = launch_.probe->levels[probe];
    }
    const core::ProfileChange change = changeOf(level, before);
    if (conclude(change) && exists) launch_.probe->levels[probe] = level;
  }

  __device__ float inputPower(uint64_t first, uint32_t nValues) const {
    const auto* const input = static_cast<const Storage*>(launch_.input) + first;
    const float factor = core::valueOf<type>(launch_.inputFactor);
    return sumOfSquares(nValues, [&](uint32_t index) {
      return ElementTraits<type>::toFloat(input[index]) * factor;
    });
  }

  __device__ float residualPower(uint64_t first, uint32_t nValues) const {
    switch (launch_.residualType) {
      case ResidualType::fp32:
        return residualPower<ResidualType::fp32>(first, nValues);
      case ResidualType::bf16:
        return residualPower<ResidualType::bf16>(first, nValues);
      default:
        return residualPower<ResidualType::int8>(first, nValues);
    }
  }
  template <ResidualType residualType>
  __device__ float residualPower(uint64_t first, uint32_t nValues) const {
    const auto* const tile =
        static_cast<const uint8_t*>(launch_.residual) + core::residualBytes(residualType, first);
    return sumOfSquares(
        nValues, [&](uint32_t index) { return core::residualAt<residualType>(tile, index); });
  }

  // Of all probes, from each thread's own.
  __device__ core::ProfileChange changeOf(float level, float before) {
    const float shift = core::shiftOf(level, before);
    if (threadIdx.x < kMaxProbes) board_.shift[threadIdx.x] = shift;
    if (threadIdx.x == 0) board_.median = 0.0f;
    core::ProfileChange change;
    change.nFlipped = countOf(core::isFlipped(level, before));
    change.nShifts = countOf(isFinite(shift));
    if (isFinite(shift) &&
        core::rankOf(board_.shift, kMaxProbes, threadIdx.x) == core::medianRank(change.nShifts))
      board_.median = shift;
    __syncthreads();
    change.median = board_.median;
    change.nDeviating = countOf(core::isFar(shift, change.median));
    return change;
  }

  // By one thread; all know the answer.
  __device__ bool conclude(const core::ProfileChange& change) {
    bool isKept = false;
    if (threadIdx.x == 0)
      isKept = core::conclude(change, core::totalOf(board_.power, tiles_.size()), tiles_.size(),
                              *launch_.call.state, *launch_.probe);
    return countOf(isKept) > 0;
  }

  // Threads of the CTA for which it is so. What they wrote before, all can read afterwards.
  __device__ static uint32_t countOf(bool isSo) {
    return static_cast<uint32_t>(__syncthreads_count(isSo));
  }

  const ProbeLaunch& launch_;
  core::ProbedTiles tiles_;
  ProbeBoard& board_;
};

}  // namespace cinch::cuda
