// The residuals of one shard, tile by tile, as fp32 however they are stored.
#pragma once

#include "kernels/core/residual_layout.h"
#include "kernels/host/tile_codec.h"
#include "kernels/host/tile_elements.h"

namespace cinch::host {

class ResidualTiles {
 public:
  // `residual` is the shard's, or null: there are none.
  ResidualTiles(ResidualType type, void* residual, TileCodecs codecs)
      : type_(type),
        residual_(static_cast<uint8_t*>(residual)),
        int8_(*findTileCodec(codecs, core::ResidualTileCodec::kFormat.id)) {}

  bool exist() const { return residual_ != nullptr; }

  // Makes the first nValues 0: that is all bytes zero, however they are stored.
  void clear(uint64_t nValues) { std::memset(residual_, 0, core::residualBytes(type_, nValues)); }
  void clear(uint64_t first, uint32_t nValues) {
    std::memset(at(first), 0, core::residualBytes(type_, nValues));
  }

  // The residuals of the tile that begins at value `first`: their own memory where that can be
  // worked on, else `buffer`, filled.
  float* open(uint64_t first, uint32_t nValues, TileValues& buffer) const {
    const uint64_t tileBytes = core::residualBytes(type_, kTileElems);
    prefetch(at(first) + tileBytes, tileBytes);
    if (isInPlace(nValues)) return reinterpret_cast<float*>(at(first));
    if (type_ == ResidualType::int8)
      int8_.decode({at(first), {}, buffer.at});
    else
      loadElements(elementType(), at(first), nValues, buffer.at);
    return buffer.at;
  }

  // Keeps what was made of an open tile.
  void close(uint64_t first, uint32_t nValues, const TileValues& buffer) {
    if (isInPlace(nValues)) return;
    if (type_ == ResidualType::int8)
      int8_.encode({buffer.at, nValues, {}, {}, nullptr, nullptr, nullptr, at(first)});
    else
      storeElements(elementType(), buffer.at, nValues, at(first));
  }

 private:
  bool isInPlace(uint32_t nValues) const {
    return type_ == ResidualType::fp32 && nValues == kTileElems;
  }
  ElementType elementType() const {
    return type_ == ResidualType::fp32 ? ElementType::fp32 : ElementType::bf16;
  }
  uint8_t* at(uint64_t first) const { return residual_ + core::residualBytes(type_, first); }

  ResidualType type_;
  uint8_t* residual_;
  const TileCodec& int8_;
};

}  // namespace cinch::host
