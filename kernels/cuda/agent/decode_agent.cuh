// What one thread does in a decode launch. Row y of the grid decodes shard y.
#pragma once

#include "kernels/cuda/agent/call_end.cuh"
#include "kernels/cuda/agent/encoded_shard.cuh"
#include "kernels/cuda/agent/launch_batch.cuh"
#include "kernels/cuda/agent/shard_codec.cuh"
#include "kernels/cuda/agent/tile_elements.cuh"

namespace cinch::cuda {

template <class Elements, class Codecs>
class DecodeAgent {
 public:
  __device__ DecodeAgent(const DecodeLaunch& launch, const ShardView& shard)
      : call_(launch.call),
        shard_(shard),
        input_(launch.input + shard.shard * shard.strideBytes),
        output_(call_.type, launch.output, shard.firstElem),
        codec_(call_, shard.shard) {}

  __device__ __forceinline__ void run() {
    const uint32_t faults = faultsOfShard(call_, input_);
    if (isFirstOfRow()) reportFaults(call_, faults);
    bool allFinite = true;
    for (TileWalk walk(shard_.nTiles()); !walk.atEnd(); walk.advance()) {
      const TileExtent extent = shard_.ofTile(walk.tile);
      const TileValues values = faults ? refused() : decode(walk.tile, extent);
      allFinite &= output_.store(values, walk.tile, extent);
    }
    endLaunch(call_, call_.layout.nShards, allFinite);
  }

 private:
  __device__ static TileValues refused() {
    markCold();
    return filled(kNan);
  }

  __device__ TileValues decode(uint32_t tile, TileExtent extent) {
    codec_.seek(tile);
    return codec_.decode(tile, extent, input_);
  }

  const CallContext& call_;
  ShardView shard_;
  const uint8_t* input_;
  Elements output_;
  ShardCodec<Codecs> codec_;
};

CINCH_HD inline uint32_t rowsOf(const DecodeLaunch& launch) {
  return launch.call.layout.nShards;
}

template <class Elements, class Codecs>
__device__ __forceinline__ void decodeRow(const DecodeLaunch& launch) {
  DecodeAgent<Elements, Codecs>(launch, ShardView(launch.call.layout, blockIdx.y)).run();
}

// Of any types and codecs, since a batch may have several.
__device__ __forceinline__ void decodeRow(const LaunchBatch<DecodeLaunch>& batch) {
  const DecodeLaunch& launch = batch.launches[blockIdx.z];
  if (blockIdx.y < rowsOf(launch)) decodeRow<AnyElements, AnyCodec>(launch);
}

}  // namespace cinch::cuda
