// What one thread does in a reduce launch: the grid has one row, the owned shard.
#pragma once

#include "kernels/cuda/agent/call_end.cuh"
#include "kernels/cuda/agent/launch_batch.cuh"
#include "kernels/cuda/agent/shard_sum.cuh"

namespace cinch::cuda {

// What becomes of the sum: the codes of a shard, or values, in the second case of two codes.
enum class ReduceEnd { codes, values, valuesOfTwo };
inline ReduceEnd endOf(const ReduceLaunch& launch) {
  if (launch.ownCodes) return ReduceEnd::valuesOfTwo;
  return launch.values ? ReduceEnd::values : ReduceEnd::codes;
}

// Whether a kernel for one codec can do a launch. Of the rule of a reduce into values nothing
// counts but how the own residual is stored.
inline bool isPlain(const ReduceLaunch& launch) {
  CodingRule rule = launch.rule;
  if (launch.values) rule = {.residualType = rule.residualType};
  const bool keepsResiduals = launch.residual || launch.ownResidual;
  return isPlain(rule) && (!keepsResiduals || rule.residualType == ResidualType::int8);
}

// Codes the sum.
template <class Elements, class Codecs>
class ReduceAgent {
 public:
  __device__ explicit ReduceAgent(const ReduceLaunch& launch)
      : shard_(launch.call.layout, launch.shard),
        task_{launch.call, launch.rule, launch.shard, 1, launch.output, launch.residual},
        sum_(launch, shard_),
        writer_(task_) {}

  __device__ __forceinline__ void run() {
    if (isFirstOfRow()) storeHeader(task_.call, task_.output);
    for (TileWalk walk(shard_.nTiles()); !walk.atEnd(); walk.advance()) {
      const TileExtent extent = shard_.ofTile(walk.tile);
      const TileValues sum = sum_.ofTile(walk.tile, extent);
      writer_.write(walk.tile, extent, sum, writer_.loadResidual(walk.tile, extent));
    }
    clearRest(task_.call.layout, shard_, task_.output);
    writer_.finish();
  }

 private:
  static constexpr Kept kKept = Codecs::kIsFixed ? Kept::int8Residual : Kept::anything;

  ShardView shard_;
  CodingTask task_;
  ShardSum<Elements, Codecs> sum_;
  TileWriter<Codecs, kKept> writer_;
};

// Stores the sum as values, which ends the call.
template <class Elements, class Codecs, Parts parts>
class ReduceIntoValuesAgent {
 public:
  __device__ explicit ReduceIntoValuesAgent(const ReduceLaunch& launch)
      : launch_(launch),
        shard_(launch.call.layout, launch.shard),
        sum_(launch, shard_),
        values_(launch.call.type, launch.values, 0) {}

  __device__ __forceinline__ void run() {
    bool allFinite = true;
    for (TileWalk walk(shard_.nTiles()); !walk.atEnd(); walk.advance()) {
      const TileExtent extent = shard_.ofTile(walk.tile);
      allFinite &= values_.store(sum_.ofTile(walk.tile, extent), walk.tile, extent);
    }
    endLaunch(launch_.call, 1, allFinite);
  }

 private:
  const ReduceLaunch& launch_;
  ShardView shard_;
  ShardSum<Elements, Codecs, parts> sum_;
  Elements values_;
};

CINCH_HD inline uint32_t rowsOf(const ReduceLaunch&) {
  return 1;
}

// Of any types and codecs, since a batch may have several.
__device__ __forceinline__ void reduceShard(const LaunchBatch<ReduceLaunch>& batch) {
  const ReduceLaunch& launch = batch.launches[blockIdx.z];
  if (launch.ownCodes)
    ReduceIntoValuesAgent<AnyElements, AnyCodec, Parts::ofTwoCodes>(launch).run();
  else if (launch.values)
    ReduceIntoValuesAgent<AnyElements, AnyCodec, Parts::ofRanks>(launch).run();
  else
    ReduceAgent<AnyElements, AnyCodec>(launch).run();
}

}  // namespace cinch::cuda
