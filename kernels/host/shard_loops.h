// Encode, reduce and decode of whole launches (kernels/device_table.h says what each does). All
// inline: compilation.h compiles them once for every instruction set.
#pragma once

#include <atomic>

#include "kernels/core/input_factor.h"
#include "kernels/host/shard_encoder.h"

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

// The caller's own values of a tile, times `factor`: where they are, if that is possible, else in
// `buffer`. `input` begins with the shard.
inline const float* ownValues(ElementType type, const void* input, float factor,
                              const ShardTile& tile, TileValues& buffer) {
  const uint8_t* from = static_cast<const uint8_t*>(input) + tile.first * elementBytes(type);
  const uint64_t tileBytes = kTileElems * elementBytes(type);
  prefetch(from + tileBytes, tileBytes);
  if (type == ElementType::fp32 && tile.nValues == kTileElems && factor == 1.0f)
    return reinterpret_cast<const float*>(from);
  loadElements(type, from, tile.nValues, buffer.at);
  multiply(buffer, factor);
  return buffer.at;
}

inline void* partOfResidual(void* residual, ResidualType type, const wire::ShardLayout& layout,
                            uint32_t shard) {
  if (!residual) return nullptr;
  return static_cast<uint8_t*>(residual) + core::residualOffset(type, layout, shard);
}

inline void encodeShards(const EncodeLaunch& launch, TileCodecs codecs) {
  const CallContext& call = launch.call;
  const wire::ShardLayout& layout = call.layout;
  const float factor = core::valueOf(launch.inputFactor, call.type);
  core::ErrorSums errors;
  for (uint32_t shard = 0; shard < layout.nShards; ++shard) {
    if (static_cast<int64_t>(shard) == launch.skipShard) continue;
    void* residual = partOfResidual(launch.residual, launch.rule.residualType, layout, shard);
    const uint8_t* input = static_cast<const uint8_t*>(launch.input) +
                           layout.firstElem(shard) * elementBytes(call.type);
    ShardEncoder encoder(call, shard, 0, launch.rule, residual, errors, codecs);
    encoder.encode(launch.output + shard * layout.strideBytes(),
                   [&](const ShardTile& tile, TileValues& buffer) {
                     return ownValues(call.type, input, factor, tile, buffer);
                   });
  }
  if (launch.rule.measure) errors.addTo(*call.state, 0);
}

inline constexpr float kNan = floatOfBits(ElementTraits<ElementType::fp32>::kCanonicalNan);

// Sums the parts of all ranks, tile by tile.
class TileSum {
 public:
  TileSum(const ReduceLaunch& launch, TileCodecs codecs)
      : launch_(launch),
        factor_(core::valueOf(launch.inputFactor, launch.call.type)),
        accepted_(acceptPeers()),
        poisoned_(core::isPoisoned(*launch.call.state)),
        ownResiduals_(launch.rule.residualType,
                      partOfResidual(launch.ownResidual, launch.rule.residualType,
                                     launch.call.layout, launch.shard),
                      codecs) {}

  // In rank order, times the factor; NaN where the peers were not accepted.
  void make(const ShardTile& tile, TileValues& sum) {
    for (uint32_t rank = 0; rank < launch_.call.layout.nShards; ++rank)
      if (rank == launch_.shard)
        addOwnPart(tile, rank > 0, sum);
      else
        tile.codec.decode({peer(rank) + tile.offset, tile.place(launch_.call), rank > 0, sum.at});
    multiply(sum, launch_.factor);
    if (!accepted_) fill(sum, kNan);
  }

 private:
  const uint8_t* peer(uint32_t rank) const {
    return launch_.peers + rank * launch_.call.layout.strideBytes();
  }

  bool acceptPeers() const {
    bool accepted = true;
    for (uint32_t rank = 0; rank < launch_.call.layout.nShards; ++rank)
      if (rank != launch_.shard) accepted &= acceptHeader(launch_.call, peer(rank));
    return accepted;
  }

  // The caller's own part, exact: its residual is used up.
  void addOwnPart(const ShardTile& tile, bool adds, TileValues& sum) {
    TileValues buffer, residualBuffer;
    TileValues& part = adds ? buffer : sum;
    loadOwn(tile, part);
    if (ownResiduals_.exist()) {
      if (!poisoned_)
        addTile(ownResiduals_.open(tile.first, tile.nValues, residualBuffer), part.at);
      ownResiduals_.clear(tile.first, tile.nValues);
    }
    if (adds) addTile(part.at, sum.at);
  }

  void loadOwn(const ShardTile& tile, TileValues& part) const {
    const ElementType type = launch_.call.type;
    loadElements(type,
                 static_cast<const uint8_t*>(launch_.ownInput) + tile.first * elementBytes(type),
                 tile.nValues, part.at);
    multiply(part, factor_);
  }

  const ReduceLaunch& launch_;
  float factor_;
  bool accepted_;
  bool poisoned_;
  ResidualTiles ownResiduals_;
};

inline void reduceIntoCodes(const ReduceLaunch& launch, TileCodecs codecs) {
  TileSum sum(launch, codecs);
  core::ErrorSums errors;
  ShardEncoder encoder(launch.call, launch.shard, 1, launch.rule, launch.residual, errors, codecs);
  encoder.encode(launch.output, [&](const ShardTile& tile, TileValues& buffer) {
    sum.make(tile, buffer);
    return buffer.at;
  });
  if (launch.rule.measure) errors.addTo(*launch.call.state, 1);
}

inline void reduceIntoValues(const ReduceLaunch& launch, TileCodecs codecs) {
  const ElementType type = launch.call.type;
  auto* output = static_cast<uint8_t*>(launch.values);
  TileSum sum(launch, codecs);
  bool allFinite = true;
  forEachTile(launch.call.layout, launch.shard, codecs, [&](const ShardTile& tile) {
    if (tile.nValues == 0) return;
    TileValues values;
    sum.make(tile, values);
    allFinite &=
        storeElements(type, values.at, tile.nValues, output + tile.first * elementBytes(type));
  });
  core::endCall(*launch.call.state, allFinite);
}

inline void reduceShard(const ReduceLaunch& launch, TileCodecs codecs) {
  if (launch.values) return reduceIntoValues(launch, codecs);
  reduceIntoCodes(launch, codecs);
}

// Returns whether every value is finite as stored.
inline bool decodeShard(const DecodeLaunch& launch, uint32_t shard, TileCodecs codecs) {
  const CallContext& call = launch.call;
  const wire::ShardLayout& layout = call.layout;
  const uint8_t* input = launch.input + shard * layout.strideBytes();
  auto* output =
      static_cast<uint8_t*>(launch.output) + layout.firstElem(shard) * elementBytes(call.type);
  const bool accepted = acceptHeader(call, input);
  bool allFinite = true;
  forEachTile(layout, shard, codecs, [&](const ShardTile& tile) {
    if (tile.nValues == 0) return;
    TileValues values;
    if (accepted)
      tile.codec.decode({input + tile.offset, tile.place(call), false, values.at});
    else
      fill(values, kNan);
    allFinite &= storeElements(call.type, values.at, tile.nValues,
                               output + tile.first * elementBytes(call.type));
  });
  return allFinite;
}

inline void decodeShards(const DecodeLaunch& launch, TileCodecs codecs) {
  bool allFinite = true;
  for (uint32_t shard = 0; shard < launch.call.layout.nShards; ++shard)
    allFinite &= decodeShard(launch, shard, codecs);
  core::endCall(*launch.call.state, allFinite);
}

}  // namespace cinch::host
