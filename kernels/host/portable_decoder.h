// Decodes tiles of any codec, in plain loops over the codec's own functions, which compilers turn
// into vector code.
#pragma once

#include "kernels/host/code_planes.h"
#include "kernels/host/rotated_block.h"
#include "kernels/host/tile_codec.h"
#include "kernels/host/tile_elements.h"
#include "kernels/host/tile_metadata.h"

namespace cinch::host {

// Sums part by part, for any Decoder.
template <class Decoder>
inline void sumParts(const TileSumming& summing) {
  TileValues buffer;
  prefetch(summing.nextOwn.bytes, kTileElems * summing.nextOwn.perValue);
  for (uint32_t rank = 0; rank < summing.nRanks; ++rank) {
    float* const part = rank == 0 ? summing.sum : buffer.at;
    if (summing.isOwn(rank))
      std::memcpy(part, summing.ownValues, sizeof buffer);
    else
      Decoder::decode({summing.part(rank), summing.place, part});
    if (rank > 0) addTiles(summing.sum, part, summing.sum);
  }
}

template <BlockCodec C>
class PortableDecoder {
 public:
  static void decode(const TileDecoding& decoding) {
    decodeValues(decoding.input, decoding.values);
    if constexpr (C::kIsRotated)
      PortableRotation::rotateTileBack(decoding.place.rotationKey, decoding.place.firstOctet,
                                       decoding.values);
  }

  static void sum(const TileSumming& summing) { sumParts<PortableDecoder>(summing); }

 private:
  using Scale = typename C::Scale;
  using Code = CodeOf<C::kFormat.bits>;

  static void decodeValues(const uint8_t* tile, float* values) {
    alignas(64) Code codes[kTileElems];
    for (uint32_t block = 0; block < wire::kTileBlocks; ++block)
      unpackCodes<C::kFormat.bits>(
          tile + C::kFormat.tileMetaBytes() + block * C::kFormat.blockCodeBytes(),
          codes + block * kBlockElems);
    for (uint32_t block = 0; block < wire::kTileBlocks; ++block)
      decodeBlock(TileMetadata<C>::storedScale(tile, block), codes + block * kBlockElems,
                  values + block * kBlockElems);
  }

  static void decodeBlock(const Scale& scale, const Code* codes, float* values) {
    if (scale.isMarked())
      for (uint32_t i = 0; i < kBlockElems; ++i) values[i] = __builtin_nanf("");
    else
      for (uint32_t i = 0; i < kBlockElems; ++i) values[i] = scale.decode(codes[i]);
  }
};

}  // namespace cinch::host
