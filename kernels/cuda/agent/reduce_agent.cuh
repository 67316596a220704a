// What one thread does in a reduce launch: the grid has one row, the owned shard.
#pragma once

#include "kernels/cuda/agent/block_writer.cuh"

namespace cinch::cuda {

inline Kept keptBy(const ReduceLaunch& launch) {
  return launch.measure ? Kept::statistics : Kept::residual;
}

template <ElementType type, wire::Codec codec, Kept kept>
class ReduceAgent {
 public:
  __device__ explicit ReduceAgent(const ReduceLaunch& launch)
      : launch_(launch),
        strideBytes_(launch.call.layout.strideBytes()),
        extent_(launch.call.layout.shardElems(launch.shard)),
        poisoned_(core::isPoisoned(*launch.call.state)),
        writer_(launch.output, launch.residual, launch.gain, poisoned_) {}

  __device__ void run() {
    const CallContext& call = launch_.call;
    if (isFirstOfRow()) storeHeader(call, call.state->ordinal, launch_.output);
    const bool accepted = acceptPeers();
    for (BlockWalk walk(call.layout.shardTiles(0) * wire::kTileBlocks); !walk.atEnd();
         walk.advance()) {
      const uint32_t n = extent_.valuesOfLane(walk.block);
      const Values residual = writer_.loadResidual(walk.block, n);
      const Values sum = sumParts(walk.block, n);
      writer_.write(walk.block, n, accepted ? sum : filled(kNan), residual);
    }
    writer_.finish(call.state, 1);
  }

 private:
  using Storage = typename ElementTraits<type>::Storage;

  __device__ const uint8_t* peer(uint32_t rank) const {
    return launch_.peers + rank * strideBytes_;
  }

  // Every warp looks at every peer's header; the first one reports. All lanes call it together.
  __device__ bool acceptPeers() const {
    const CallContext& call = launch_.call;
    uint32_t faults = 0;
    for (uint32_t rank = threadIdx.x % kWarpThreads; rank < call.layout.nShards;
         rank += kWarpThreads)
      if (rank != launch_.shard) faults |= faultsOfShard(call, call.state->ordinal, peer(rank));
    if (isFirstWarpOfRow()) reportFaults(call, faults);
    return !__any_sync(kAllLanes, faults != 0);
  }

  // The sum of all ranks' parts in rank order, times the factor.
  __device__ Values sumParts(uint32_t block, uint32_t n) const {
    Values sum = filled(-0.0f);  // the number that changes no other when added
    addPeers(block, 0, launch_.shard, &sum);
    add(ownPart(block, n), &sum);
    addPeers(block, launch_.shard + 1, launch_.call.layout.nShards, &sum);
#pragma unroll
    for (float& value : sum.at) value *= launch_.factor;
    return sum;
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
    Values own = toValues<type>(loadOctet(input + first, n));
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
  ShardExtent extent_;
  bool poisoned_;
  BlockWriter<codec, kept> writer_;
};

}  // namespace cinch::cuda
