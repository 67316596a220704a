// Which codec a kernel works with: one that it is compiled for, or that of each tile's piece. Both
// say where a tile lies in its shard, and call a function with the codec's type.
#pragma once

#include "kernels/codec/registry.h"
#include "kernels/cuda/agent/warp_tile.cuh"

namespace cinch::cuda {

// What kernels of its own are compiled for. Each costs seconds of compilation, for all
// architectures; the others are done by the kernels for any codec.
using FrequentCodecs = codec::CodecList<codec::UniformCodec<2>, codec::UniformCodec<4>,
                                        codec::UniformCodec<8>, codec::HadamardCodec<4>>;

template <BlockCodec C>
class OneCodec {
 public:
  static constexpr bool kIsFixed = true;
  static constexpr bool kMayRotate = C::kIsRotated;

  __device__ OneCodec(const wire::ShardLayout&, uint32_t) {}

  __device__ void seek(uint32_t) {}
  __device__ bool isRotated() const { return C::kIsRotated; }
  __device__ uint64_t offsetOf(uint32_t tile) const {
    return wire::kHeaderBytes + uint64_t{tile} * C::kFormat.tileBytes();
  }
  template <class Call>
  __device__ TileValues withCodec(const Call& call) const {
    return call.template operator()<C>();
  }
};

// Tiles must be sought in rising order.
class AnyCodec {
 public:
  static constexpr bool kIsFixed = false;
  static constexpr bool kMayRotate = true;

  __device__ AnyCodec(const wire::ShardLayout& layout, uint32_t shard)
      : pieces_(layout.mixedPieces),
        next_(layout.isMixed() ? layout.mixedShards[layout.firstPart(shard)].firstPiece : 0),
        piece_(layout.isMixed() ? wire::Piece{} : layout.piece(shard, 0)) {}

  // A shard of one codec has one piece, which has all its tiles.
  __device__ void seek(uint32_t tile) {
    while (tile >= piece_.firstTile + piece_.nTiles) piece_ = pieces_[next_++];
  }
  // Of the tile that was sought.
  __device__ bool isRotated() const { return isRotatedOf(codec::AllCodecs{}); }

  __device__ uint64_t offsetOf(uint32_t tile) const {
    return piece_.offset + (tile - piece_.firstTile) * piece_.codec.tileBytes();
  }
  // Called instead of inlined, it would need a stack for the values.
  template <class Call>
  __device__ __forceinline__ TileValues withCodec(const Call& call) const {
    return withCodecOf(codec::AllCodecs{}, call);
  }

 private:
  template <class... C>
  __device__ bool isRotatedOf(codec::CodecList<C...>) const {
    return ((C::kIsRotated && piece_.codec.id == C::kFormat.id) || ...);
  }

  template <class Call, class... C>
  __device__ __forceinline__ TileValues withCodecOf(codec::CodecList<C...>,
                                                    const Call& call) const {
    const uint8_t id = piece_.codec.id;
    TileValues result = {};
    (void)((id == C::kFormat.id && (result = call.template operator()<C>(), true)) || ...);
    return result;
  }

  const wire::Piece* pieces_;
  uint32_t next_;
  wire::Piece piece_;
};

}  // namespace cinch::cuda
