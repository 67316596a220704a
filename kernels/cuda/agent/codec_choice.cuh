// Which codec a kernel works with: one that it is compiled for, or that of each tile's piece. Both
// say where a tile lies in its shard, and call a function with the codec's type.
#pragma once

#include "kernels/codec/registry.h"
#include "kernels/cuda/agent/warp_tile.cuh"

namespace cinch::cuda {

// One list out of some.
template <class... Lists>
struct Concatenated;
template <class... A>
struct Concatenated<codec::CodecList<A...>> {
  using Type = codec::CodecList<A...>;
};
template <class... A, class... B, class... Rest>
struct Concatenated<codec::CodecList<A...>, codec::CodecList<B...>, Rest...> {
  using Type = typename Concatenated<codec::CodecList<A..., B...>, Rest...>::Type;
};

inline constexpr uint32_t kUsualBlockElems = 128;

template <BlockCodec C>
inline constexpr bool kHasUsualBlocks = C::kFormat.blockElems == kUsualBlockElems;
// What kernels of its own are compiled for. Each costs seconds of compilation, for all
// architectures; the others are done by the kernels for any codec.
template <BlockCodec C>
inline constexpr bool kIsFrequent = false;
template <>
inline constexpr bool kIsFrequent<codec::UniformCodec<2>> = true;
template <>
inline constexpr bool kIsFrequent<codec::UniformCodec<4>> = true;
template <>
inline constexpr bool kIsFrequent<codec::UniformCodec<8>> = true;
template <>
inline constexpr bool kIsFrequent<codec::ClippedCodec<4>> = true;
template <>
inline constexpr bool kIsFrequent<codec::HadamardCodec<4>> = true;

template <bool isIn, class C>
using OnlyIf = std::conditional_t<isIn, codec::CodecList<C>, codec::CodecList<>>;

template <class List>
struct Chosen;
template <class... C>
struct Chosen<codec::CodecList<C...>> {
  using UsualBlocks =
      typename Concatenated<codec::CodecList<>, OnlyIf<kHasUsualBlocks<C>, C>...>::Type;
  using Frequent = typename Concatenated<codec::CodecList<>, OnlyIf<kIsFrequent<C>, C>...>::Type;
};

// Codecs that differ only in the size of their blocks share the code for blocks of 128: what the
// size decides is looked up when a launch runs.
using UsualCodecs = Chosen<codec::AllCodecs>::UsualBlocks;
using FrequentCodecs = Chosen<codec::AllCodecs>::Frequent;

// The id of the same codec with blocks of 128 (codecId()). From 192 on are experiments, which have
// no other blocks.
CINCH_HD constexpr uint8_t usualId(uint8_t id) {
  return id < 192 ? id % 64 : id;
}

constexpr bool haveUsualTwins() {
  for (const codec::CodecInfo& codec : codec::kCodecs) {
    const codec::CodecInfo* twin = codec::findCodec(usualId(codec.format.id));
    if (!twin || twin->format.blockElems != kUsualBlockElems ||
        twin->format.bits != codec.format.bits ||
        twin->format.blockMetaBytes != codec.format.blockMetaBytes)
      return false;
  }
  return true;
}
static_assert(haveUsualTwins());

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
    return call.template operator()<C>(C::kFormat);
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
  __device__ bool isRotated() const { return isRotatedOf(UsualCodecs{}); }

  __device__ uint64_t offsetOf(uint32_t tile) const {
    return piece_.offset + (tile - piece_.firstTile) * piece_.codec.tileBytes();
  }
  // Called instead of inlined, it would need a stack for the values.
  template <class Call>
  __device__ __forceinline__ TileValues withCodec(const Call& call) const {
    return withCodecOf(UsualCodecs{}, call);
  }

 private:
  template <class... C>
  __device__ bool isRotatedOf(codec::CodecList<C...>) const {
    return ((C::kIsRotated && usualId(piece_.codec.id) == C::kFormat.id) || ...);
  }

  template <class Call, class... C>
  __device__ __forceinline__ TileValues withCodecOf(codec::CodecList<C...>,
                                                    const Call& call) const {
    const wire::CodecFormat format = piece_.codec;
    const uint8_t id = usualId(format.id);
    TileValues result = {};
    (void)((id == C::kFormat.id && (result = call.template operator()<C>(format), true)) || ...);
    return result;
  }

  const wire::Piece* pieces_;
  uint32_t next_;
  wire::Piece piece_;
};

}  // namespace cinch::cuda
