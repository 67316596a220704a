// Decodes tiles with the vector instructions of an Isa (avx512.h, avx2.h), value for value what
// PortableDecoder does.
//
// Include only where those instructions are switched on for everything that follows.
#pragma once

#include "kernels/host/portable_decoder.h"
#include "kernels/host/simd/linear_scale.h"
#include "kernels/host/simd/vector_rotation.h"

namespace cinch::host {

// Decodes tiles: codes of up to four bits by a table, others by the scale.
template <class Isa, BlockCodec C>
class LevelDecoder {
 public:
  static constexpr bool kExists = C::kFormat.bits <= 4 || IsLinear<Isa, typename C::Scale>;

  static void decode(const TileDecoding& decoding) {
    if constexpr (C::kIsRotated)
      decodeRotated(decoding);
    else if (decoding.adds)
      decodeTile<true>(decoding.input, decoding.values);
    else
      decodeTile<false>(decoding.input, decoding.values);
  }

 private:
  using Floats = typename Isa::Floats;
  using Codes = typename Isa::Codes;
  using Scale = typename C::Scale;

  static constexpr uint32_t kBits = C::kFormat.bits, kBlockElems = C::kFormat.blockElems;
  static constexpr uint32_t kLow = wire::lowPlaneBits(kBits), kHigh = wire::highPlaneBits(kBits);
  static constexpr uint32_t kTableSize = 16;

  static void decodeRotated(const TileDecoding& decoding) {
    TileValues part;
    float* values = decoding.adds ? part.at : decoding.values;
    decodeTile<false>(decoding.input, values);
    VectorRotation<Isa>::rotateTileBack(decoding.place.rotationKey, decoding.place.firstOctet,
                                        values);
    if (decoding.adds) addTile(part.at, decoding.values);
  }

  template <bool adds>
  static void decodeTile(const uint8_t* tile, float* values) {
    TileMetadata<C> meta;
    meta.load(tile);
    for (uint32_t first = 0; first < kTileElems; first += C::kGroupElems) {
      const Scale scale = meta.scaleOf(first / C::kGroupElems);
      const uint8_t* codes =
          tile + C::kFormat.tileMetaBytes() + first / kBlockElems * C::kFormat.blockCodeBytes();
      decodeGroup<adds>(scale, codes, first % kBlockElems, values + first);
    }
  }

  // The values from `first` on of a block.
  template <bool adds>
  static void decodeGroup(const Scale& scale, const uint8_t* codes, uint32_t first, float* values) {
    if (scale.isMarked())
      fillWithNan(values);
    else if constexpr (kBits <= 4)
      decodeByTable<adds>(scale, codes, first, values);
    else
      decodeByScale<adds>(VectorScale<Isa, Scale>(scale), codes, first, values);
  }

  static void fillWithNan(float* values) {
    for (uint32_t i = 0; i < C::kGroupElems; i += Isa::kLanes)
      Isa::store(Isa::broadcast(__builtin_nanf("")), values + i);
  }

  // The table repeats where codes have less than four bits: what else is in the others is ignored.
  template <bool adds>
  static void decodeByTable(const Scale& scale, const uint8_t* codes, uint32_t first,
                            float* values) {
    alignas(64) float decoded[kTableSize];
    for (uint32_t code = 0; code < kTableSize; ++code)
      decoded[code] = scale.decode(code & ((1u << kBits) - 1));
    const auto table = Isa::loadTable(decoded);
    for (uint32_t i = 0; i < C::kGroupElems; i += Isa::kLanes)
      put<adds>(Isa::lookUp(table, codesAt(codes, first + i)), values + i);
  }

  template <bool adds, class Linear>
  static void decodeByScale(const Linear& scale, const uint8_t* codes, uint32_t first,
                            float* values) {
    for (uint32_t i = 0; i < C::kGroupElems; i += Isa::kLanes)
      put<adds>(scale.decode(Isa::toFloats(codesAt(codes, first + i))), values + i);
  }

  template <bool adds>
  static void put(Floats decoded, float* values) {
    Isa::store(adds ? Isa::load(values) + decoded : decoded, values);
  }

  static Codes codesAt(const uint8_t* codes, uint32_t index) {
    const Codes low = Isa::template fromPlane<kLow>(codes, index);
    if constexpr (kHigh == 0) return low;
    const Codes high = Isa::template fromPlane<kHigh>(codes + kBlockElems * kLow / 8, index);
    return Isa::template withHighBits<kLow>(Isa::template lowBits<kLow>(low),
                                            kBits <= 4 ? high : Isa::template lowBits<kHigh>(high));
  }
};

template <class Isa, BlockCodec C>
using VectorDecoder =
    std::conditional_t<LevelDecoder<Isa, C>::kExists, LevelDecoder<Isa, C>, PortableDecoder<C>>;

}  // namespace cinch::host
