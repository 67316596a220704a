// Codes one block: the end that stage 1 and stage 2 share. Also moves blocks that are not whole
// in and out of the fixed-length loops.
#pragma once

#include "kernels/core/error_sums.h"
#include "kernels/host/block_loops.h"

namespace cinch::host {

// A block's place in a shard: its first value and how many of its values exist.
struct BlockSpan {
  uint64_t first;
  uint32_t nValues;

  bool isWhole() const { return nValues == kBlockElems; }
};

inline uint64_t blocksOf(uint64_t nValues) {
  return (nValues + kBlockElems - 1) / kBlockElems;
}

// Block `block` of a shard of `nValues`.
inline BlockSpan spanOf(uint64_t block, uint64_t nValues) {
  const uint64_t first = block * kBlockElems;
  const uint64_t left = nValues - first;
  return {first, left < kBlockElems ? static_cast<uint32_t>(left) : kBlockElems};
}

// Fills the values that do not exist with the first one, which leaves minimum and maximum alone.
inline void padWithFirst(BlockValues& values, uint32_t nValues) {
  for (uint32_t i = nValues; i < kBlockElems; ++i) values.at[i] = values.at[0];
}

inline void loadSpan(ElementType type, const void* input, BlockSpan span, BlockValues& values) {
  const uint32_t nBytes = elementBytes(type);
  const uint8_t* from = static_cast<const uint8_t*>(input) + span.first * nBytes;
  if (span.isWhole()) return loadValues(type, from, values);
  alignas(64) uint8_t whole[sizeof(BlockValues)] = {};
  std::memcpy(whole, from, span.nValues * nBytes);
  loadValues(type, whole, values);
  padWithFirst(values, span.nValues);
}

// Stores what exists of the block; returns whether all of it is finite as stored.
inline bool storeSpan(ElementType type, BlockValues& values, BlockSpan span, void* output) {
  const uint32_t nBytes = elementBytes(type);
  uint8_t* to = static_cast<uint8_t*>(output) + span.first * nBytes;
  if (span.isWhole()) return storeValues(type, values, to);
  padWithFirst(values, span.nValues);
  alignas(64) uint8_t whole[sizeof(BlockValues)];
  const bool allFinite = storeValues(type, values, whole);
  std::memcpy(to, whole, span.nValues * nBytes);
  return allFinite;
}

// What the blocks of one launch have in common.
struct BlockEncoder {
  Codec codec;
  float gain;
  core::ErrorSums* sums;  // null: not measured

  // Codes `values`, of which nValues exist and the rest repeat the first, into the pair and codes
  // of a block. `residual` holds kBlockElems values, padded likewise, or is null.
  void encodeWhole(const BlockValues& values, uint32_t nValues, float* residual, uint8_t* pairOut,
                   uint8_t* codesOut) const {
    BlockValues compensated;
    if (residual) compensateAll(values, gain, residual, compensated);
    const BlockValues& coded = residual ? compensated : values;

    const core::StoredPair pair = core::pairOf(codec, rangeOf(coded));
    const core::BlockScale scale(codec, pair);
    std::memcpy(pairOut, &pair, sizeof pair);
    if (scale.isMarked()) {
      std::memset(codesOut, 0, wire::blockCodeBytes(codec));
      if (residual) std::memset(residual, 0, sizeof(BlockValues));
      return;
    }

    BlockCodes codes;
    encodeAll(scale, coded, codes);
    std::memset(codes.at + nValues, 0, kBlockElems - nValues);
    packCodes(codec, codes, codesOut);
    if (!residual && !sums) return;

    BlockValues decoded;
    decodeAll(scale, codes, decoded);
    if (residual) updateResidual(values, decoded, residual);
    if (sums) sums->addBlock(coded.at, decoded.at, nValues);
  }

  // The same for the span of a shard; `residual` is the shard's, or null.
  void encode(const BlockValues& values, BlockSpan span, float* residual, uint8_t* pairOut,
              uint8_t* codesOut) const {
    if (!residual || span.isWhole())
      return encodeWhole(values, span.nValues, residual ? residual + span.first : nullptr, pairOut,
                         codesOut);
    BlockValues whole;
    loadSpan(ElementType::fp32, residual, span, whole);
    encodeWhole(values, span.nValues, whole.at, pairOut, codesOut);
    std::memcpy(residual + span.first, whole.at, span.nValues * sizeof(float));
  }
};

}  // namespace cinch::host
