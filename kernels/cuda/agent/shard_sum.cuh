// The sum of all ranks' parts of the owned shard: what both kinds of reduce begin with.
#pragma once

#include "kernels/core/call_state.h"
#include "kernels/core/input_factor.h"
#include "kernels/cuda/agent/encoded_shard.cuh"

namespace cinch::cuda {

template <ElementType type, wire::Codec codec>
class ShardSum {
 public:
  // All lanes of a warp make it together: every warp looks at every peer's header, and the first
  // one reports.
  __device__ explicit ShardSum(const ReduceLaunch& launch)
      : launch_(launch),
        strideBytes_(launch.call.layout.strideBytes()),
        inputFactor_(core::valueOf<type>(launch.inputFactor)),
        poisoned_(core::isPoisoned(*launch.call.state)),
        accepted_(acceptPeers()) {}

  // This lane's values of a block, of which `n` exist: the parts in rank order, times the factor.
  // NaN where a peer's header was refused. Each block once: the own part's residual is used up.
  __device__ Values ofBlock(uint32_t block, uint32_t n) const {
    Values sum = filled(-0.0f);  // the number that changes no other when added
    addPeers(block, 0, launch_.shard, &sum);
    add(ownPart(block, n), &sum);
    addPeers(block, launch_.shard + 1, launch_.call.layout.nShards, &sum);
#pragma unroll
    for (float& value : sum.at) value *= launch_.factor;
    return accepted_ ? sum : filled(kNan);
  }

  __device__ bool isPoisoned() const {
    return poisoned_;
  }

 private:
  using Storage = typename ElementTraits<type>::Storage;

  __device__ const uint8_t* peer(uint32_t rank) const {
    return launch_.peers + rank * strideBytes_;
  }

  __device__ bool acceptPeers() const {
    const CallContext& call = launch_.call;
    uint32_t faults = 0;
    for (uint32_t rank = threadIdx.x % kWarpThreads; rank < call.layout.nShards;
         rank += kWarpThreads)
      if (rank != launch_.shard) faults |= faultsOfShard(call, call.state->ordinal, peer(rank));
    if (isFirstWarpOfRow()) reportFaults(call, faults);
    return !__any_sync(kAllLanes, faults != 0);
  }

  __device__ void addPeers(uint32_t block, uint32_t first, uint32_t end, Values* sum) const {
#pragma unroll 2
    for (uint32_t rank = first; rank < end; ++rank)
      add(decodeOctet(loadCoded<codec>(peer(rank), block)), sum);
  }

  __device__ static void add(const Values& part, Values* sum) {
#pragma unroll
    for (uint32_t i = 0; i < kValuesPerLane; ++i) sum->at[i] += part.at[i];
  }

  // The caller's own part, exact: its residual is used up.
  __device__ Values ownPart(uint32_t block, uint32_t n) const {
    const uint64_t first = firstOfLane(block);
    const auto* input = static_cast<const Storage*>(launch_.ownInput);
    Values own = toValues<type>(loadOctet(input + first, n), inputFactor_);
    if (!launch_.ownResidual) return own;
    const Values residual = loadOctet(launch_.ownResidual + first, n);
#pragma unroll
    for (uint32_t i = 0; i < kValuesPerLane; ++i)
      own.at[i] = poisoned_ ? own.at[i] : own.at[i] + residual.at[i];
    storeOctet(filled(0.0f), launch_.ownResidual + first, n);
    return own;
  }

  const ReduceLaunch& launch_;
  uint64_t strideBytes_;
  float inputFactor_;
  bool poisoned_;
  bool accepted_;
};

}  // namespace cinch::cuda
