// What one thread does in an encode launch. Row y of the grid codes shard y.
#pragma once

#include "kernels/cuda/agent/launch_batch.cuh"
#include "kernels/cuda/agent/tile_writer.cuh"

namespace cinch::cuda {

// What a kernel for one codec must keep in a launch.
inline Kept keptBy(const EncodeLaunch& launch) {
  CodingRule rule = launch.rule;
  if (!launch.residual) rule = {.rounding = rule.rounding, .measure = rule.measure};
  if (!isPlain(rule)) return Kept::anything;
  if (!launch.residual) return Kept::codes;
  return rule.residualType == ResidualType::int8 ? Kept::int8Residual : Kept::anything;
}

template <class Elements, class Codecs, Kept kept>
class EncodeAgent {
 public:
  __device__ EncodeAgent(const EncodeLaunch& launch, const ShardView& shard)
      : shard_(shard),
        input_(launch.call.type, launch.input, shard.firstElem),
        inputFactor_(launch.inputFactor),
        task_{launch.call,
              launch.rule,
              shard.shard,
              0,
              launch.output + shard.shard * shard.strideBytes,
              residualOf(launch, shard)},
        writer_(task_) {}

  __device__ __forceinline__ void run() {
    if (isFirstOfRow()) storeHeader(task_.call, task_.output);
    if constexpr (kept == Kept::codes)
      codeAhead();
    else
      codeWithResiduals();
    clearRest(task_.call.layout, shard_, task_.output);
    writer_.finish();
  }

 private:
  using Words = typename Elements::Words;

  // The next tile is on its way while one is coded.
  __device__ __forceinline__ void codeAhead() {
    TileWalk walk(shard_.nTiles());
    Words next = walk.atEnd() ? Words{} : load(walk.tile);
    while (!walk.atEnd()) {
      const uint32_t tile = walk.tile;
      const TileValues values = input_.valuesOf(next, inputFactor_);
      walk.advance();
      if (!walk.atEnd()) next = load(walk.tile);
      writer_.write(tile, shard_.ofTile(tile), values, {});
    }
  }

  // Residuals leave no registers for that.
  __device__ __forceinline__ void codeWithResiduals() {
    for (TileWalk walk(shard_.nTiles()); !walk.atEnd(); walk.advance()) {
      const TileExtent extent = shard_.ofTile(walk.tile);
      const Words words = load(walk.tile);
      const TileValues residual = writer_.loadResidual(walk.tile, extent);
      writer_.write(walk.tile, extent, input_.valuesOf(words, inputFactor_), residual);
    }
  }

  __device__ static void* residualOf(const EncodeLaunch& launch, const ShardView& shard) {
    if (kept == Kept::codes || !launch.residual) return nullptr;
    const ResidualType type =
        kept == Kept::int8Residual ? ResidualType::int8 : launch.rule.residualType;
    return static_cast<uint8_t*>(launch.residual) + residualOffset(type, shard);
  }

  __device__ Words load(uint32_t tile) const { return input_.load(tile, shard_.ofTile(tile)); }

  ShardView shard_;
  Elements input_;
  const InputFactor& inputFactor_;
  CodingTask task_;
  TileWriter<Codecs, kept> writer_;
};

CINCH_HD inline uint32_t rowsOf(const EncodeLaunch& launch) {
  return launch.call.layout.nShards;
}

template <class Elements, class Codecs, Kept kept>
__device__ __forceinline__ void encodeRow(const EncodeLaunch& launch) {
  const bool isSkipped = static_cast<int64_t>(blockIdx.y) == launch.skipShard;
  if (isSkipped) return;
  EncodeAgent<Elements, Codecs, kept>(launch, ShardView(launch.call.layout, blockIdx.y)).run();
}

// Of any types and codecs, since a batch may have several.
__device__ __forceinline__ void encodeRow(const LaunchBatch<EncodeLaunch>& batch) {
  const EncodeLaunch& launch = batch.launches[blockIdx.z];
  if (blockIdx.y < rowsOf(launch)) encodeRow<AnyElements, AnyCodec, Kept::anything>(launch);
}

}  // namespace cinch::cuda
