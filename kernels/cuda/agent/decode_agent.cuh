// What one thread does in a decode launch. Row y of the grid decodes shard y; the last CTA of the
// grid to finish ends the call.
#pragma once

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
      allFinite &= store(values, walk.block);
    }
    endCall(allFinite);
  }

 private:
  using Storage = typename ElementTraits<type>::Storage;

  // Returns whether this lane's values are finite as stored.
  __device__ bool store(const Values& values, uint32_t block) const {
    const uint32_t n = extent_.valuesOfLane(block);
    Octet<Storage> octet;
    bool allFinite = true;
#pragma unroll
    for (uint32_t i = 0; i < kValuesPerLane; ++i) {
      octet.at[i] = ElementTraits<type>::fromFloat(values.at[i]);
      allFinite &= i >= n || ElementTraits<type>::isStorageFinite(octet.at[i]);
    }
    storeOctet(octet, output_ + firstOfLane(block), n);
    return allFinite;
  }

  // Advances the ordinal once all CTAs have read it, and has the next call drop its residuals where
  // anything was not finite.
  __device__ void endCall(bool allFinite) const {
    SlotState* state = call_.state;
    const bool ctaFinite = __syncthreads_and(allFinite);
    if (threadIdx.x != 0) return;
    if (!ctaFinite) state->poisonOrdinal = ordinal_ + 1;
    __threadfence();
    if (atomicAdd(&state->ticket, 1u) + 1 < gridDim.x * gridDim.y) return;
    state->ticket = 0;
    state->ordinal = ordinal_ + 1;
  }

  const CallContext& call_;
  uint32_t ordinal_;
  const uint8_t* input_;
  ShardExtent extent_;
  Storage* output_;
};

}  // namespace cinch::cuda
