// What one thread does in a decode launch. Row y of the grid decodes shard y.
#pragma once

#include "kernels/cuda/agent/call_end.cuh"
#include "kernels/cuda/agent/encoded_shard.cuh"

namespace cinch::cuda {

template <ElementType type, wire::Codec codec>
class DecodeAgent {
 public:
  __device__ DecodeAgent(const DecodeLaunch& launch, uint32_t shard)
      : call_(launch.call),
        ordinal_(call_.state->ordinal),
        input_(launch.input + shard * call_.layout.strideBytes()),
        extent_(call_.layout.shardElems(shard)),
        output_(static_cast<Storage*>(launch.output) + call_.layout.firstElem(shard)) {}

  __device__ void run() {
    const uint32_t faults = faultsOfShard(call_, ordinal_, input_);
    if (isFirstOfRow()) reportFaults(call_, faults);
    bool allFinite = true;
    for (BlockWalk walk(extent_.nBlocks()); !walk.atEnd(); walk.advance()) {
      const Values values =
          faults ? filled(kNan) : decodeOctet(loadCoded<codec>(input_, walk.block));
      allFinite &= storeValues<type>(values, output_ + firstOfLane(walk.block),
                                     extent_.valuesOfLane(walk.block));
    }
    endCall(call_.state, allFinite);
  }

 private:
  using Storage = typename ElementTraits<type>::Storage;

  const CallContext& call_;
  uint32_t ordinal_;
  const uint8_t* input_;
  ShardExtent extent_;
  Storage* output_;
};

}  // namespace cinch::cuda
