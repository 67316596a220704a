// Encode, reduce and decode of whole launches (kernels/device_table.h says what each does). All
// inline: host_codec.cc compiles them once for every instruction set.
#pragma once

#include <atomic>

#include "kernels/core/call_state.h"
#include "kernels/core/input_factor.h"
#include "kernels/core/shard_header.h"
#include "kernels/host/block_encoder.h"

namespace cinch::host {

// Compares the header in front of `shardBytes` with what the running call expects; reports
// differences in the call's fault word and returns whether there were none.
inline bool acceptHeader(const CallContext& call, const uint8_t* shardBytes) {
  wire::ShardHeader found;
  std::memcpy(&found, shardBytes, sizeof found);
  const uint32_t faults = core::headerFaults(found, core::makeHeader(call, call.state->ordinal));
  if (faults) std::atomic_ref<uint32_t>(*call.fault).fetch_or(faults, std::memory_order_relaxed);
  return faults == 0;
}

inline void writeHeader(const CallContext& call, uint8_t* shardBytes) {
  const wire::ShardHeader header = core::makeHeader(call, call.state->ordinal);
  std::memcpy(shardBytes, &header, sizeof header);
}

// Every shard takes the tiles of the largest one; blocks without values are zero bytes.
inline void clearMissingBlocks(const wire::ShardLayout& layout, uint64_t firstMissing,
                               uint8_t* shardBytes) {
  const uint64_t nBlocks = layout.shardTiles(0) * wire::kTileBlocks;
  for (uint64_t block = firstMissing; block < nBlocks; ++block) {
    std::memset(shardBytes + wire::pairOffset(layout.codec, block), 0, wire::kBlockMetaBytes);
    std::memset(shardBytes + wire::codesOffset(layout.codec, block), 0,
                wire::blockCodeBytes(layout.codec));
  }
}

inline void encodeShard(const EncodeLaunch& launch, uint32_t shard, core::ErrorSums* sums) {
  const wire::ShardLayout& layout = launch.call.layout;
  const uint64_t first = layout.firstElem(shard), nValues = layout.shardElems(shard);
  const auto* input =
      static_cast<const uint8_t*>(launch.input) + first * elementBytes(launch.call.type);
  float* residual = launch.residual ? launch.residual + first : nullptr;
  const float factor = core::valueOf(launch.inputFactor, launch.call.type);
  uint8_t* output = launch.output + shard * layout.strideBytes();
  if (residual && core::isPoisoned(*launch.call.state))
    std::memset(residual, 0, nValues * sizeof(float));

  writeHeader(launch.call, output);
  const BlockEncoder encoder{layout.codec, launch.gain, sums};
  for (uint64_t block = 0; block < blocksOf(nValues); ++block) {
    const BlockSpan span = spanOf(block, nValues);
    BlockValues values;
    loadSpan(launch.call.type, input, span, values);
    multiplyAll(values, factor);
    encoder.encode(values, span, residual, output + wire::pairOffset(layout.codec, block),
                   output + wire::codesOffset(layout.codec, block));
  }
  clearMissingBlocks(layout, blocksOf(nValues), output);
}

inline void encodeShards(const EncodeLaunch& launch) {
  core::ErrorSums sums;
  for (uint32_t shard = 0; shard < launch.call.layout.nShards; ++shard)
    if (static_cast<int64_t>(shard) != launch.skipShard)
      encodeShard(launch, shard, launch.measure ? &sums : nullptr);
  if (launch.measure) sums.addTo(*launch.call.state, 0);
}

// Decodes block `block` of an encoded shard. False where it is marked: all of it is NaN.
inline bool decodeBlock(Codec codec, const uint8_t* shardBytes, uint64_t block,
                        BlockValues& values) {
  core::StoredPair pair;
  std::memcpy(&pair, shardBytes + wire::pairOffset(codec, block), sizeof pair);
  const core::BlockScale scale(codec, pair);
  if (scale.isMarked()) return false;
  BlockCodes codes;
  unpackCodes(codec, shardBytes + wire::codesOffset(codec, block), codes);
  decodeAll(scale, codes, values);
  return true;
}

inline constexpr uint32_t kNanBits = ElementTraits<ElementType::fp32>::kCanonicalNan;

// The caller's own part of the sum, exact: its residual is used up.
inline void loadOwnPart(const ReduceLaunch& launch, BlockSpan span, BlockValues& values) {
  loadSpan(launch.call.type, launch.ownInput, span, values);
  multiplyAll(values, core::valueOf(launch.inputFactor, launch.call.type));
  if (!launch.ownResidual) return;
  float* residual = launch.ownResidual + span.first;
  if (!core::isPoisoned(*launch.call.state))
    for (uint32_t i = 0; i < span.nValues; ++i) values.at[i] += residual[i];
  std::memset(residual, 0, span.nValues * sizeof(float));
}

// Sum of all ranks' parts of a block, in rank order, times the factor; NaN where the peers were not
// accepted.
inline void sumBlock(const ReduceLaunch& launch, bool accepted, uint64_t block, BlockSpan span,
                     BlockValues& sum) {
  const wire::ShardLayout& layout = launch.call.layout;
  fill(sum, -0.0f);  // the number that changes no other when added
  for (uint32_t rank = 0; rank < layout.nShards; ++rank) {
    BlockValues part;
    if (rank == launch.shard)
      loadOwnPart(launch, span, part);
    else if (!decodeBlock(layout.codec, launch.peers + rank * layout.strideBytes(), block, part))
      fill(part, floatOfBits(kNanBits));
    for (uint32_t i = 0; i < kBlockElems; ++i) sum.at[i] += part.at[i];
  }
  multiplyAll(sum, launch.factor);
  if (!accepted) fill(sum, floatOfBits(kNanBits));
  padWithFirst(sum, span.nValues);
}

inline bool acceptPeers(const ReduceLaunch& launch) {
  const wire::ShardLayout& layout = launch.call.layout;
  bool accepted = true;
  for (uint32_t rank = 0; rank < layout.nShards; ++rank)
    if (rank != launch.shard)
      accepted &= acceptHeader(launch.call, launch.peers + rank * layout.strideBytes());
  return accepted;
}

inline void reduceIntoCodes(const ReduceLaunch& launch) {
  const wire::ShardLayout& layout = launch.call.layout;
  const uint64_t nValues = layout.shardElems(launch.shard);
  const bool accepted = acceptPeers(launch);
  if (launch.residual && core::isPoisoned(*launch.call.state))
    std::memset(launch.residual, 0, nValues * sizeof(float));

  writeHeader(launch.call, launch.output);
  core::ErrorSums sums;
  const BlockEncoder encoder{layout.codec, launch.gain, launch.measure ? &sums : nullptr};
  for (uint64_t block = 0; block < blocksOf(nValues); ++block) {
    const BlockSpan span = spanOf(block, nValues);
    BlockValues sum;
    sumBlock(launch, accepted, block, span, sum);
    encoder.encode(sum, span, launch.residual,
                   launch.output + wire::pairOffset(layout.codec, block),
                   launch.output + wire::codesOffset(layout.codec, block));
  }
  clearMissingBlocks(layout, blocksOf(nValues), launch.output);
  if (launch.measure) sums.addTo(*launch.call.state, 1);
}

inline void reduceIntoValues(const ReduceLaunch& launch) {
  const uint64_t nValues = launch.call.layout.shardElems(launch.shard);
  const bool accepted = acceptPeers(launch);
  bool allFinite = true;
  for (uint64_t block = 0; block < blocksOf(nValues); ++block) {
    const BlockSpan span = spanOf(block, nValues);
    BlockValues sum;
    sumBlock(launch, accepted, block, span, sum);
    allFinite &= storeSpan(launch.call.type, sum, span, launch.values);
  }
  core::endCall(*launch.call.state, allFinite);
}

inline void reduceShard(const ReduceLaunch& launch) {
  if (launch.values) return reduceIntoValues(launch);
  reduceIntoCodes(launch);
}

// Returns whether every value is finite as stored.
inline bool decodeShard(const DecodeLaunch& launch, uint32_t shard) {
  const wire::ShardLayout& layout = launch.call.layout;
  const uint64_t nValues = layout.shardElems(shard);
  const uint8_t* input = launch.input + shard * layout.strideBytes();
  auto* output = static_cast<uint8_t*>(launch.output) +
                 layout.firstElem(shard) * elementBytes(launch.call.type);
  const bool accepted = acceptHeader(launch.call, input);
  bool allFinite = true;
  for (uint64_t block = 0; block < blocksOf(nValues); ++block) {
    BlockValues values;
    if (!accepted || !decodeBlock(layout.codec, input, block, values))
      fill(values, floatOfBits(kNanBits));
    allFinite &= storeSpan(launch.call.type, values, spanOf(block, nValues), output);
  }
  return allFinite;
}

inline void decodeShards(const DecodeLaunch& launch) {
  bool allFinite = true;
  for (uint32_t shard = 0; shard < launch.call.layout.nShards; ++shard)
    allFinite &= decodeShard(launch, shard);
  core::endCall(*launch.call.state, allFinite);
}

}  // namespace cinch::host
