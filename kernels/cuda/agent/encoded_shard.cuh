// An encoded shard as a whole: its header, and the zeros behind its tiles. Shards start at a
// multiple of 16 bytes, which aligns every access here.
#pragma once

#include "kernels/core/shard_header.h"
#include "kernels/cuda/agent/octet_words.cuh"

namespace cinch::cuda {

static_assert(wire::kHeaderBytes == sizeof(uint4) && alignof(wire::ShardHeader) <= sizeof(uint4));

__device__ inline void storeHeader(const CallContext& call, uint8_t* shard) {
  *reinterpret_cast<uint4*>(shard) =
      __builtin_bit_cast(uint4, core::makeHeader(call, call.state->ordinal));
}

// The FaultBits of a shard's header; 0 where it is the running call's.
__device__ inline uint32_t faultsOfShard(const CallContext& call, const uint8_t* shard) {
  const uint4 bytes = *reinterpret_cast<const uint4*>(shard);
  return core::headerFaults(__builtin_bit_cast(wire::ShardHeader, bytes),
                            core::makeHeader(call, call.state->ordinal));
}

// `fault` is host memory: the host may be looking.
__device__ inline void reportFaults(const CallContext& call, uint32_t faults) {
  if (faults) atomicOr_system(call.fault, faults);
}

// Zeros from the end of the shard's tiles up to the stride, by all threads of a grid row.
__device__ inline void clearRest(const wire::ShardLayout& layout, const ShardView& shard,
                                 uint8_t* bytes) {
  const uint64_t used = layout.isMixed()
                            ? layout.usedBytes(shard.shard)
                            : wire::kHeaderBytes + shard.nTiles() * layout.codec.tileBytes();
  const uint64_t end = shard.strideBytes / kVectorBytes;
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  uint64_t i = used / kVectorBytes + blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (; i < end; i += stride) reinterpret_cast<uint4*>(bytes)[i] = uint4{};
}

}  // namespace cinch::cuda
