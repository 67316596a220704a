// What one thread does in a reduce launch: the grid has one row, the owned shard.
#pragma once

#include "kernels/cuda/agent/block_writer.cuh"
#include "kernels/cuda/agent/call_end.cuh"
#include "kernels/cuda/agent/shard_sum.cuh"

namespace cinch::cuda {

inline Kept keptBy(const ReduceLaunch& launch) {
  return launch.measure ? Kept::statistics : Kept::residual;
}

// Codes the sum.
template <ElementType type, wire::Codec codec, Kept kept>
class ReduceAgent {
 public:
  __device__ explicit ReduceAgent(const ReduceLaunch& launch)
      : launch_(launch),
        extent_(launch.call.layout.shardElems(launch.shard)),
        sum_(launch),
        writer_(launch.output, launch.residual, launch.gain, sum_.isPoisoned()) {}

  __device__ void run() {
    const CallContext& call = launch_.call;
    if (isFirstOfRow()) storeHeader(call, call.state->ordinal, launch_.output);
    for (BlockWalk walk(call.layout.shardTiles(0) * wire::kTileBlocks); !walk.atEnd();
         walk.advance()) {
      const uint32_t n = extent_.valuesOfLane(walk.block);
      const Values residual = writer_.loadResidual(walk.block, n);
      writer_.write(walk.block, n, sum_.ofBlock(walk.block, n), residual);
    }
    writer_.finish(call.state, 1);
  }

 private:
  const ReduceLaunch& launch_;
  ShardExtent extent_;
  ShardSum<type, codec> sum_;
  BlockWriter<codec, kept> writer_;
};

// Stores the sum as values, which ends the call.
template <ElementType type, wire::Codec codec>
class ReduceIntoValuesAgent {
 public:
  __device__ explicit ReduceIntoValuesAgent(const ReduceLaunch& launch)
      : launch_(launch), extent_(launch.call.layout.shardElems(launch.shard)), sum_(launch) {}

  __device__ void run() {
    auto* const values = static_cast<typename ElementTraits<type>::Storage*>(launch_.values);
    bool allFinite = true;
    for (BlockWalk walk(extent_.nBlocks()); !walk.atEnd(); walk.advance()) {
      const uint32_t n = extent_.valuesOfLane(walk.block);
      allFinite &=
          storeValues<type>(sum_.ofBlock(walk.block, n), values + firstOfLane(walk.block), n);
    }
    endCall(launch_.call.state, allFinite);
  }

 private:
  const ReduceLaunch& launch_;
  ShardExtent extent_;
  ShardSum<type, codec> sum_;
};

}  // namespace cinch::cuda
