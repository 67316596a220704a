// The residuals of a shard, a tile at a time, in fp32 however they are stored.
#pragma once

#include "kernels/core/residual_layout.h"
#include "kernels/cuda/agent/tile_codec.cuh"
#include "kernels/cuda/agent/tile_elements.cuh"

namespace cinch::cuda {

// Where a shard's residuals begin in a whole bucket's.
__device__ inline uint64_t residualOffset(ResidualType type, const ShardView& shard) {
  if (type != ResidualType::int8) return core::residualBytes(type, shard.firstElem);
  return shard.firstTile * core::ResidualTileCodec::kFormat.tileBytes();
}

// A shard's residuals, or null.
struct ResidualPlace {
  void* memory;
  ResidualType type;
  bool isIgnored;  // reads as 0
};

// Stored as encoded tiles, and nothing else: what kernels of their own have.
class Int8Residual {
 public:
  __device__ explicit Int8Residual(const ResidualPlace& place)
      : tiles_(static_cast<uint8_t*>(place.memory)), isIgnored_(place.isIgnored) {}

  __device__ bool exists() const { return tiles_ != nullptr; }

  __device__ TileValues load(uint32_t tile, TileExtent extent) const {
    if (!exists() || isIgnored_) {
      markCold();
      return filled(0.0f);
    }
    return codec(tile, extent).decode(at(tile));
  }

  __device__ void store(uint32_t tile, TileExtent extent, const TileValues& values) {
    __syncwarp();  // all lanes have read the metadata that one of them overwrites
    codec(tile, extent).encode(values, ToNearest{}, at(tile));
  }

  __device__ void clear(uint32_t tile, TileExtent) {
    __syncwarp();  // all lanes have read what others clear
    for (uint32_t i = laneOfWarp(); i < kTileBytes / kVectorBytes; i += kWarpThreads)
      reinterpret_cast<uint4*>(at(tile))[i] = uint4{};
  }

 private:
  using Codec = core::ResidualTileCodec;
  static constexpr uint32_t kTileBytes = Codec::kFormat.tileBytes();

  __device__ static TileCodec<Codec> codec(uint32_t tile, TileExtent extent) {
    return TileCodec<Codec>(TilePlace{tile, extent});
  }
  __device__ uint8_t* at(uint32_t tile) const { return tiles_ + uint64_t{tile} * kTileBytes; }

  uint8_t* tiles_;
  bool isIgnored_;
};

// Stored as the launch says.
class AnyResidual {
 public:
  __device__ explicit AnyResidual(const ResidualPlace& place) : place_(place) {}

  __device__ bool exists() const { return place_.memory != nullptr; }

  __device__ TileValues load(uint32_t tile, TileExtent extent) const {
    if (!exists() || place_.isIgnored) return filled(0.0f);
    switch (place_.type) {
      case ResidualType::fp32:
        return toValues<ElementType::fp32>(array<float>().load(tile, extent), 1.0f);
      case ResidualType::bf16:
        return toValues<ElementType::bf16>(array<uint16_t>().load(tile, extent), 1.0f);
      default:
        return Int8Residual(place_).load(tile, extent);
    }
  }

  __device__ void store(uint32_t tile, TileExtent extent, const TileValues& values) {
    switch (place_.type) {
      case ResidualType::fp32: {
        TileArray<float> elements = array<float>();
        storeValues<ElementType::fp32>(values, elements, tile, extent);
        return;
      }
      case ResidualType::bf16: {
        TileArray<uint16_t> elements = array<uint16_t>();
        storeValues<ElementType::bf16>(values, elements, tile, extent);
        return;
      }
      default:
        Int8Residual(place_).store(tile, extent, values);
    }
  }

  // All forms of zero are bytes of zero.
  __device__ void clear(uint32_t tile, TileExtent extent) {
    switch (place_.type) {
      case ResidualType::fp32:
        return array<float>().store(tile, extent, {});
      case ResidualType::bf16:
        return array<uint16_t>().store(tile, extent, {});
      default:
        Int8Residual(place_).clear(tile, extent);
    }
  }

 private:
  template <class Storage>
  __device__ TileArray<Storage> array() const {
    return TileArray<Storage>(place_.memory);
  }
  ResidualPlace place_;
};

}  // namespace cinch::cuda
