// What one thread does in a probe launch, which is one CTA: warps take the probed tiles in turn,
// then a thread for each of them compares what they found.
#pragma once

#include "kernels/core/input_factor.h"
#include "kernels/core/probe.h"
#include "kernels/cuda/agent/instructions.cuh"
#include "kernels/cuda/agent/warp_tile.cuh"

namespace cinch::cuda {

inline constexpr uint32_t kProbeThreads = 1024;
static_assert(core::kProbeLanes == kWarpThreads && kMaxProbes <= kProbeThreads);

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

// What the threads of the CTA tell one another.
struct ProbeBoard {
  core::ProbePower power[kMaxProbes];
  float shift[kMaxProbes];
  float median;
};

template <ElementType type>
class ProbeAgent {
 public:
  __device__ explicit ProbeAgent(const ProbeLaunch& launch)
      : launch_(launch), tiles_(launch.call.layout.count), board_(sharedMemory<ProbeBoard>()) {}

  __device__ __forceinline__ void run() {
    const uint32_t nWarps = kProbeThreads / kWarpThreads;
    for (uint32_t i = threadIdx.x / kWarpThreads; i < tiles_.size(); i += nWarps) measure(i);
    __syncthreads();
    // Thread i has probe i, if there is one.
    const uint32_t probe = threadIdx.x;
    float* const levels = launch_.probe->levels;
    const bool exists = probe < tiles_.size();
    const float level = exists ? core::levelOf(board_.power[probe].input) : core::kNoLevel;
    const core::ProfileChange change = changeOf(level, exists ? levels[probe] : core::kNoLevel);
    if (conclude(change) && exists) levels[probe] = level;
  }

 private:
  using Storage = typename ElementTraits<type>::Storage;

  __device__ void measure(uint32_t probe) {
    const uint64_t first = tiles_.tile(probe) * kTileElems;
    const uint32_t nValues = tiles_.nValues(probe);
    const core::ProbePower power = {inputPower(first, nValues), residualPower(first, nValues)};
    if (laneOfWarp() == 0) board_.power[probe] = power;
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
