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

// The caller's own elements.
struct OwnElements {
  ElementType type;
  const void* input;  // from the first of a shard on
  float factor;

  const uint8_t* at(uint64_t index) const {
    return static_cast<const uint8_t*>(input) + index * elementBytes(type);
  }
  const uint8_t* next(const ShardTile& tile) const { return at(tile.first + kTileElems); }
  uint64_t tileBytes() const { return kTileElems * elementBytes(type); }

  // The values of a tile, times the factor: where they are, if that is possible, else in `buffer`.
  const float* values(const ShardTile& tile, TileValues& buffer) const {
    if (type == ElementType::fp32 && tile.nValues == kTileElems && factor == 1.0f)
      return reinterpret_cast<const float*>(at(tile.first));
    loadElements(type, at(tile.first), tile.nValues, buffer.at);
    multiply(buffer, factor);
    return buffer.at;
  }
};

inline void* partOfResidual(void* residual, ResidualType type, const wire::ShardLayout& layout,
                            uint32_t shard) {
  if (!residual) return nullptr;
  return static_cast<uint8_t*>(residual) + core::residualOffset(type, layout, shard);
}

inline void encodeShards(const EncodeLaunch& launch, TileCodecs codecs) {
  const CallContext& call = launch.call;
  const wire::ShardLayout& layout = call.layout;
  const auto* const all = static_cast<const uint8_t*>(launch.input);
  const float factor = core::valueOf(launch.inputFactor, call.type);
  core::ErrorSums errors;
  for (uint32_t shard = 0; shard < layout.nShards; ++shard) {
    if (static_cast<int64_t>(shard) == launch.skipShard) continue;
    void* residual = partOfResidual(launch.residual, launch.rule.residualType, layout, shard);
    const OwnElements input{call.type, all + layout.firstElem(shard) * elementBytes(call.type),
                            factor};
    ShardEncoder encoder(call, shard, 0, launch.rule, residual, errors, codecs);
    encoder.encode(launch.output + shard * layout.strideBytes(),
                   [&](const ShardTile& tile, TileValues& buffer) {
                     prefetch(input.next(tile), input.tileBytes());
                     return input.values(tile, buffer);
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
        own_{launch.call.type, launch.ownInput,
             core::valueOf(launch.inputFactor, launch.call.type)},
        accepted_(acceptPeers()),
        poisoned_(core::isPoisoned(*launch.call.state)),
        ownResiduals_(launch.rule.residualType,
                      partOfResidual(launch.ownResidual, launch.rule.residualType,
                                     launch.call.layout, launch.shard),
                      codecs) {}

  // In their order, times the factor; NaN where the peers were not accepted.
  void make(const ShardTile& tile, TileValues& sum) {
    const wire::ShardLayout& layout = launch_.call.layout;
    TileValues buffer;
    const float* ownPart = takeOwnPart(tile, buffer);
    tile.codec.sum({peer(0) + tile.offset, layout.strideBytes(), launch_.nParts(),
                    launch_.ownPart(), ownPart, nextOwn(tile), tile.place(launch_.call), sum.at});
    multiply(sum, launch_.factor);
    if (!accepted_) fillTile(sum.at, kNan);
  }

 private:
  const uint8_t* peer(uint32_t part) const {
    return launch_.peers + part * launch_.call.layout.strideBytes();
  }

  // Of the tile behind this one.
  OwnAhead nextOwn(const ShardTile& tile) const {
    if (!launch_.ownCodes) return {own_.next(tile), elementBytes(own_.type)};
    return {launch_.ownCodes + tile.offset + tile.nBytes, tile.nBytes / kTileElems + 1};
  }

  bool acceptPeers() const {
    bool accepted = true;
    for (uint32_t part = 0; part < launch_.nParts(); ++part)
      if (part != launch_.ownPart()) accepted &= acceptHeader(launch_.call, peer(part));
    return accepted;
  }

  // The caller's own part. Exact, its residual is used up.
  const float* takeOwnPart(const ShardTile& tile, TileValues& buffer) {
    if (launch_.ownCodes) {
      tile.codec.decode({launch_.ownCodes + tile.offset, tile.place(launch_.call), buffer.at});
      return buffer.at;
    }
    const float* values = own_.values(tile, buffer);
    if (!ownResiduals_.exist()) return values;
    if (!poisoned_) {
      TileValues residualBuffer;
      addTiles(values, ownResiduals_.open(tile.first, tile.nValues, residualBuffer), buffer.at);
      values = buffer.at;
    }
    ownResiduals_.clear(tile.first, tile.nValues);
    return values;
  }

  const ReduceLaunch& launch_;
  OwnElements own_;
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
  core::endLaunch(launch.call, allFinite);
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
      tile.codec.decode({input + tile.offset, tile.place(call), values.at});
    else
      fillTile(values.at, kNan);
    allFinite &= storeElements(call.type, values.at, tile.nValues,
                               output + tile.first * elementBytes(call.type));
  });
  return allFinite;
}

inline void decodeShards(const DecodeLaunch& launch, TileCodecs codecs) {
  bool allFinite = true;
  for (uint32_t shard = 0; shard < launch.call.layout.nShards; ++shard)
    allFinite &= decodeShard(launch, shard, codecs);
  core::endLaunch(launch.call, allFinite);
}

}  // namespace cinch::host
