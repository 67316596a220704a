// What one thread does in an encode launch. Row y of the grid codes shard y.
#pragma once

#include "kernels/core/call_state.h"
#include "kernels/core/input_factor.h"
#include "kernels/cuda/agent/block_writer.cuh"

namespace cinch::cuda {

inline Kept keptBy(const EncodeLaunch& launch) {
  if (launch.measure) return Kept::statistics;
  return launch.residual ? Kept::residual : Kept::codes;
}

template <ElementType type, wire::Codec codec, Kept kept>
class EncodeAgent {
 public:
  __device__ EncodeAgent(const EncodeLaunch& launch, uint32_t shard)
      : call_(launch.call),
        output_(launch.output + shard * call_.layout.strideBytes()),
        extent_(call_.layout.shardElems(shard)),
        input_(static_cast<const Storage*>(launch.input) + call_.layout.firstElem(shard)),
        inputFactor_(launch.inputFactor),
        writer_(output_,
                launch.residual ? launch.residual + call_.layout.firstElem(shard) : nullptr,
                launch.gain, core::isPoisoned(*call_.state)) {}

  __device__ void run() {
    if (isFirstOfRow()) storeHeader(call_, call_.state->ordinal, output_);
    BlockWalk walk(call_.layout.shardTiles(0) * wire::kTileBlocks);
    Octet<Storage> next = load(walk.block);
    while (!walk.atEnd()) {
      const uint32_t block = walk.block;
      const uint32_t n = extent_.valuesOfLane(block);
      const Values residual = writer_.loadResidual(block, n);
      const Values values = toValues<type>(next, core::valueOf<type>(inputFactor_));
      walk.advance();
      next = load(walk.block);  // on its way while this block is coded
      writer_.write(block, n, values, residual);
    }
    writer_.finish(call_.state, 0);
  }

 private:
  using Storage = typename ElementTraits<type>::Storage;

  // This lane's values of a block; zeros past the end of the shard.
  __device__ Octet<Storage> load(uint32_t block) const {
    return loadOctet(input_ + firstOfLane(block), extent_.valuesOfLane(block));
  }

  const CallContext& call_;
  uint8_t* output_;
  ShardExtent extent_;
  const Storage* input_;
  const InputFactor& inputFactor_;  // looked up for each block: there is no register to keep it
  BlockWriter<codec, kept> writer_;
};

}  // namespace cinch::cuda
