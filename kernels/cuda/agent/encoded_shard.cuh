// Where a lane finds its part of an encoded shard: the header, and the pair and codes of a block.
// Shards start at a multiple of 16 bytes, which aligns every access here.
#pragma once

#include "kernels/core/shard_header.h"
#include "kernels/cuda/agent/octet.cuh"

namespace cinch::cuda {

static_assert(wire::kHeaderBytes == sizeof(uint4) && alignof(wire::ShardHeader) <= sizeof(uint4));
static_assert(wire::tileBytes(wire::Codec::q2) % kVectorBytes == 0);
static_assert(wire::tileBytes(wire::Codec::q4) % kVectorBytes == 0);
static_assert(wire::tileBytes(wire::Codec::q8) % kVectorBytes == 0);

inline constexpr float kNan = __builtin_nanf("");

// What one lane needs of a block to decode its eight values.
template <wire::Codec codec>
struct CodedOctet {
  core::StoredPair pair;
  typename CodeWord<codec>::Type word;
};

template <wire::Codec codec>
__device__ CodedOctet<codec> loadCoded(const uint8_t* shard, uint32_t block) {
  using Word = typename CodeWord<codec>::Type;
  const auto* words = reinterpret_cast<const Word*>(shard + wire::codesOffset(codec, block));
  const auto* pair = reinterpret_cast<const uint32_t*>(shard + wire::pairOffset(codec, block));
  return {__builtin_bit_cast(core::StoredPair, __ldcs(pair)), __ldcs(words + laneOfBlock())};
}

template <wire::Codec codec>
__device__ void storeCoded(const CodedOctet<codec>& coded, uint8_t* shard, uint32_t block) {
  using Word = typename CodeWord<codec>::Type;
  auto* words = reinterpret_cast<Word*>(shard + wire::codesOffset(codec, block));
  words[laneOfBlock()] = coded.word;
  if (laneOfBlock() == 0)
    *reinterpret_cast<uint32_t*>(shard + wire::pairOffset(codec, block)) =
        __builtin_bit_cast(uint32_t, coded.pair);
}

template <wire::Codec codec>
__device__ Values decodeOctet(const CodedOctet<codec>& coded) {
  const core::BlockScale scale(codec, coded.pair);
  Values values;
#pragma unroll
  for (uint32_t i = 0; i < kValuesPerLane; ++i)
    values.at[i] = scale.isMarked() ? kNan : scale.decode(codeAt<codec>(coded.word, i));
  return values;
}

__device__ inline void storeHeader(const CallContext& call, uint32_t ordinal, uint8_t* shard) {
  *reinterpret_cast<uint4*>(shard) = __builtin_bit_cast(uint4, core::makeHeader(call, ordinal));
}

// The FaultBits of a shard's header; 0 where it is the running call's.
__device__ inline uint32_t faultsOfShard(const CallContext& call, uint32_t ordinal,
                                         const uint8_t* shard) {
  const uint4 bytes = *reinterpret_cast<const uint4*>(shard);
  return core::headerFaults(__builtin_bit_cast(wire::ShardHeader, bytes),
                            core::makeHeader(call, ordinal));
}

// `fault` is host memory: the host may be looking.
__device__ inline void reportFaults(const CallContext& call, uint32_t faults) {
  if (faults) atomicOr_system(call.fault, faults);
}

}  // namespace cinch::cuda
