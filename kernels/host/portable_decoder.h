// Decodes tiles of any codec, in plain loops over the codec's own functions, which compilers turn
// into vector code.
#pragma once

#include "kernels/host/code_planes.h"
#include "kernels/host/rotated_block.h"
#include "kernels/host/tile_codec.h"
#include "kernels/host/tile_elements.h"
#include "kernels/host/tile_metadata.h"

namespace cinch::host {

template <BlockCodec C>
class PortableDecoder {
 public:
  static void decode(const TileDecoding& decoding) {
    TileValues part;
    float* values = decoding.adds ? part.at : decoding.values;
    decodeValues(decoding.input, values);
    if constexpr (C::kIsRotated)
      PortableRotation::rotateTileBack(decoding.place.rotationKey, decoding.place.firstOctet,
                                       values);
    if (decoding.adds) addTile(part.at, decoding.values);
  }

 private:
  using Scale = typename C::Scale;
  using Code = CodeOf<C::kFormat.bits>;

  static constexpr uint32_t kBlockElems = C::kFormat.blockElems;

  static void decodeValues(const uint8_t* tile, float* values) {
    TileMetadata<C> meta;
    meta.load(tile);
    alignas(64) Code codes[kTileElems];
    for (uint32_t block = 0; block < C::kFormat.tileBlocks(); ++block)
      unpackCodes<C::kFormat.bits, kBlockElems>(
          tile + C::kFormat.tileMetaBytes() + block * C::kFormat.blockCodeBytes(),
          codes + block * kBlockElems);
    for (uint32_t first = 0; first < kTileElems; first += C::kGroupElems)
      decodeGroup(meta.scaleOf(first / C::kGroupElems), codes + first, values + first);
  }

  static void decodeGroup(const Scale& scale, const Code* codes, float* values) {
    if (scale.isMarked())
      for (uint32_t i = 0; i < C::kGroupElems; ++i) values[i] = __builtin_nanf("");
    else
      for (uint32_t i = 0; i < C::kGroupElems; ++i) values[i] = scale.decode(codes[i]);
  }
};

}  // namespace cinch::host
