// Which codec a kernel works with: one that it is compiled for, or that of each tile's piece. Both
// say where a tile lies in its shard, and call a function with the codec's type.
#pragma once

#include "kernels/codec/registry.h"
#include "kernels/cuda/agent/warp_tile.cuh"

namespace cinch::cuda {

// Kernels of their own are compiled for the codecs that calls have where nobody chooses one, by
// what is done with these. Each kernel costs seconds of compilation and its place in the library,
// for all architectures; whatever else there is, the kernels for anything do.
//
// Coded without a residual: a ReduceScatter (5 bits), gradients at an ambiguous place and gathers
// (8), calls that are to be quick (4).
using PlainCodecs =
    codec::CodecList<codec::UniformCodec<4>, codec::UniformCodec<5>, codec::UniformCodec<8>>;
// With one: an AllReduce before its first checkup, and the codec that is most often asked for.
using FeedbackCodecs = codec::CodecList<codec::HadamardCodec<3>, codec::UniformCodec<4>>;
// What comes of the peers' codes of an AllReduce, and of a ReduceScatter.
using AllReduceCodecs =
    codec::CodecList<codec::HadamardCodec<3>, codec::UniformCodec<4>, codec::UniformCodec<8>>;
using ReduceScatterCodecs = codec::CodecList<codec::UniformCodec<5>, codec::UniformCodec<8>>;
// What the runs of adaptive precision have (interpose/policy/precision/checkup.cc).
using AdaptiveCodecs =
    codec::CodecList<codec::HadamardCodec<2>, codec::HadamardCodec<3>, codec::HadamardCodec<4>,
                     codec::UniformCodec<4>, codec::UniformCodec<5>, codec::UniformCodec<6>,
                     codec::UniformCodec<8>, codec::CastCodec<ElementType::fp32>,
                     codec::CastCodec<ElementType::bf16>, codec::CastCodec<ElementType::fp16>>;

template <class... C>
constexpr uint64_t bitsOf(codec::CodecList<C...>) {
  return (wire::codecBit(C::kFormat) | ...);
}

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

// Those of a list. Tiles must be sought in rising order.
template <class List>
class SomeCodecs {
 public:
  static constexpr bool kIsFixed = false;
  static constexpr bool kMayRotate = true;

  __device__ SomeCodecs(const wire::ShardLayout& layout, uint32_t shard)
      : pieces_(layout.mixedPieces),
        next_(layout.isMixed() ? layout.mixedShards[layout.firstPart(shard)].firstPiece : 0),
        piece_(layout.isMixed() ? wire::Piece{} : endless(layout.codec)) {}

  // A shard of one codec has one piece, which has all its tiles.
  __device__ void seek(uint32_t tile) {
    while (tile >= piece_.firstTile + piece_.nTiles) piece_ = pieces_[next_++];
  }
  // Of the tile that was sought.
  __device__ bool isRotated() const { return isRotatedOf(List{}); }

  __device__ uint64_t offsetOf(uint32_t tile) const {
    return piece_.offset + (tile - piece_.firstTile) * piece_.codec.tileBytes();
  }
  // Called instead of inlined, it would need a stack for the values.
  template <class Call>
  __device__ __forceinline__ TileValues withCodec(const Call& call) const {
    return withCodecOf(List{}, call);
  }

 private:
  __device__ static wire::Piece endless(wire::CodecFormat codec) {
    return {0, ~uint64_t{0}, wire::kHeaderBytes, codec};
  }

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

using AnyCodec = SomeCodecs<codec::AllCodecs>;
using AdaptiveCodec = SomeCodecs<AdaptiveCodecs>;

}  // namespace cinch::cuda
