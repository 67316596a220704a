// The tiles of a shard through its codecs, rotated where these say so.
#pragma once

#include "kernels/cuda/agent/codec_choice.cuh"
#include "kernels/cuda/agent/rotation.cuh"
#include "kernels/cuda/agent/tile_codec.cuh"

namespace cinch::cuda {

template <class Codecs>
class ShardCodec {
 public:
  __device__ ShardCodec(const CallContext& call, uint32_t shard)
      : codecs_(call.layout, shard),
        rotationKey_(core::rotationKey(call.slot, call.state->ordinal)) {}

  // Before the functions below are called for a tile; in rising order.
  __device__ void seek(uint32_t tile) { codecs_.seek(tile); }

  // All lanes of the warp call these together. `shard` is where the encoded shard begins.
  __device__ __forceinline__ TileValues decode(uint32_t tile, TileExtent extent,
                                               const uint8_t* shard) const {
    TileValues values = codecs_.withCodec([&]<class C>() {
      const TileCodec<C> codec(TilePlace{tile, extent});
      return codec.decode(shard + codecs_.offsetOf(tile));
    });
    if (codecs_.isRotated()) rotateBack(values, rotationKey_, tile);
    return values;
  }

  // Returns what the tile decodes to; nothing, where `wantsDecoded` is false.
  template <bool wantsDecoded, class Rounder>
  __device__ __forceinline__ TileValues encode(uint32_t tile, TileExtent extent, TileValues values,
                                               const Rounder& rounder, uint8_t* shard) const {
    const bool isRotated = codecs_.isRotated();
    if (isRotated) makeView(tile, extent, values);
    const TilePlace place{tile, isRotated ? wholeBlocks(extent) : extent};
    TileValues decoded = codecs_.withCodec([&]<class C>() {
      const TileCodec<C> codec(place);
      return codec.encode(values, rounder, shard + codecs_.offsetOf(tile));
    });
    if (wantsDecoded && isRotated) rotateBack(decoded, rotationKey_, tile);
    return decoded;
  }

 private:
  // Of a rotated block all or none of the values exist.
  __device__ static TileExtent wholeBlocks(TileExtent extent) {
    constexpr uint32_t kBlock = core::kRotationElems;
    return {(extent.nValues + kBlock - 1) / kBlock * kBlock};
  }

  __device__ void makeView(uint32_t tile, TileExtent extent, TileValues& values) const {
    if (!extent.isWhole()) {
      markCold();
      forEachValue([&](uint32_t slot, uint32_t i) {
        if (i >= extent.ofSlot(slot)) values.at[slot][i] = 0.0f;
      });
    }
    rotate(values, rotationKey_, tile);
  }

  Codecs codecs_;
  uint32_t rotationKey_;
};

}  // namespace cinch::cuda
