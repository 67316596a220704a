// Decodes tiles with the vector instructions of an Isa (avx512.h, avx2.h), value for value what
// PortableDecoder does.
//
// Include only where those instructions are switched on for everything that follows.
#pragma once

#include <algorithm>

#include "kernels/host/portable_decoder.h"
#include "kernels/host/simd/linear_scale.h"
#include "kernels/host/simd/vector_rotation.h"

namespace cinch::host {

// What codes of a linear scale mean.
template <class Isa, class Scale>
class LinearLevels {
 public:
  explicit LinearLevels(const Scale& scale) : scale_(scale) {}
  typename Isa::Floats of(typename Isa::Codes codes) const {
    return scale_.decode(Isa::toFloats(codes));
  }

 private:
  VectorScale<Isa, Scale> scale_;
};

// What codes of up to four bits mean. The table repeats where they have fewer: what else is in the
// others is ignored.
template <class Isa, class Scale, uint32_t bits>
class LevelTable {
 public:
  explicit LevelTable(const Scale& scale) : table_(tableOf(scale)) {}
  typename Isa::Floats of(typename Isa::Codes codes) const { return Isa::lookUp(table_, codes); }

 private:
  static constexpr uint32_t kSize = 16;

  static typename Isa::Table tableOf(const Scale& scale) {
    alignas(64) float levels[kSize];
    if constexpr (IsLinear<Isa, Scale>)
      for (uint32_t code = 0; code < kSize; code += Isa::kLanes)
        Isa::store(VectorScale<Isa, Scale>(scale).decode(Isa::load(kCodes.at + code)),
                   levels + code);
    else
      for (uint32_t code = 0; code < kSize; ++code)
        levels[code] = scale.decode(code & ((1u << bits) - 1));
    return Isa::loadTable(levels);
  }

  struct alignas(64) CodesAsFloats {
    float at[kSize];
  };
  static constexpr CodesAsFloats kCodes = [] {
    CodesAsFloats codes{};
    for (uint32_t code = 0; code < kSize; ++code)
      codes.at[code] = static_cast<float>(code & ((1u << bits) - 1));
    return codes;
  }();

  typename Isa::Table table_;
};

// Decodes tiles: codes of up to four bits by a table, others by the scale.
template <class Isa, BlockCodec C>
class LevelDecoder {
 public:
  static constexpr bool kExists = C::kFormat.bits <= 4 || IsLinear<Isa, typename C::Scale>;

  static void decode(const TileDecoding& decoding) {
    decodeTile(decoding.input, decoding.values);
    if constexpr (C::kIsRotated)
      VectorRotation<Isa>::rotateTileBack(decoding.place.rotationKey, decoding.place.firstOctet,
                                          decoding.values);
  }

  static void sum(const TileSumming& summing) {
    if constexpr (C::kIsRotated)
      sumParts<LevelDecoder>(summing);
    else
      for (uint32_t first = 0; first < kTileElems; first += kRunElems) sumRun(summing, first);
  }

 private:
  using Floats = typename Isa::Floats;
  using Codes = typename Isa::Codes;
  using Scale = typename C::Scale;
  using Levels = std::conditional_t<C::kFormat.bits <= 4, LevelTable<Isa, Scale, C::kFormat.bits>,
                                    LinearLevels<Isa, Scale>>;

  static constexpr uint32_t kBits = C::kFormat.bits;
  static constexpr uint32_t kLow = wire::lowPlaneBits(kBits), kHigh = wire::highPlaneBits(kBits);

  // Values of one scale whose sums fit into registers, with room for what they are made of.
  static constexpr uint32_t kRunElems = std::min(kBlockElems, 8 * Isa::kLanes);
  static constexpr uint32_t kRunVectors = kRunElems / Isa::kLanes;

  static void decodeTile(const uint8_t* tile, float* values) {
    for (uint32_t first = 0; first < kTileElems; first += kBlockElems)
      decodeRun<kBlockElems>(tile, first, [&](uint32_t i, Floats decoded) {
        Isa::store(decoded, values + first + i);
      });
  }

  // Calls take(i, decoded) for every vector of a run of values of one scale.
  template <uint32_t nElems, class Take>
  static void decodeRun(const uint8_t* tile, uint32_t first, const Take& take) {
    const Scale scale = TileMetadata<C>::storedScale(tile, first / kBlockElems);
    if (scale.isMarked()) {
      const Floats nan = Isa::broadcast(__builtin_nanf(""));
      for (uint32_t i = 0; i < nElems; i += Isa::kLanes) take(i, nan);
    } else {
      const Levels levels(scale);
      const Planes planes = planesAt(tile, first);
      for (uint32_t i = 0; i < nElems; i += Isa::kLanes) take(i, levels.of(codesAt(planes, i)));
    }
  }

  // Sums begin with -0: any number plus this is that number, -0 too.
  static void sumRun(const TileSumming& summing, uint32_t first) {
    prefetchNextTile(summing, first);
    Floats sums[kRunVectors];
    for (Floats& each : sums) each = Isa::broadcast(-0.0f);
    for (uint32_t rank = 0; rank < summing.nRanks; ++rank)
      if (summing.isOwn(rank))
        for (uint32_t i = 0; i < kRunVectors; ++i)
          sums[i] = sums[i] + Isa::load(summing.ownValues + first + i * Isa::kLanes);
      else
        decodeRun<kRunElems>(summing.part(rank), first, [&](uint32_t i, Floats decoded) {
          sums[i / Isa::kLanes] = sums[i / Isa::kLanes] + decoded;
        });
    for (uint32_t i = 0; i < kRunVectors; ++i)
      Isa::store(sums[i], summing.sum + first + i * Isa::kLanes);
  }

  // Asks for the same run of the next tile. Run by run: whole tiles at a time are in the way of
  // what is needed now.
  [[gnu::always_inline]] static void prefetchNextTile(const TileSumming& summing, uint32_t first) {
    constexpr uint32_t kTileBytes = C::kFormat.tileBytes();
    const OwnAhead& next = summing.nextOwn;
    prefetch(next.bytes + first * next.perValue, kRunElems * next.perValue);
    for (uint32_t rank = 0; rank < summing.nRanks; ++rank)
      prefetch(summing.part(rank) + kTileBytes + first * kTileBytes / kTileElems,
               kRunElems * kBits / 8);
  }

  // Where the codes of a run are.
  struct Planes {
    const uint8_t* low;
    const uint8_t* high;
  };

  static Planes planesAt(const uint8_t* tile, uint32_t first) {
    const uint32_t block = first / kBlockElems, inBlock = first % kBlockElems;
    const uint8_t* codes = tile + C::kFormat.tileMetaBytes() + block * C::kFormat.blockCodeBytes();
    return {codes + inBlock * kLow / 8, codes + (kBlockElems * kLow + inBlock * kHigh) / 8};
  }

  static Codes codesAt(const Planes& planes, uint32_t index) {
    const Codes low = Isa::template fromPlane<kLow>(planes.low + index * kLow / 8);
    if constexpr (kHigh == 0) return low;
    const Codes high = Isa::template fromPlane<kHigh>(planes.high + index * kHigh / 8);
    return Isa::template withHighBits<kLow>(Isa::template lowBits<kLow>(low),
                                            kBits <= 4 ? high : Isa::template lowBits<kHigh>(high));
  }
};

template <class Isa, BlockCodec C>
using VectorDecoder =
    std::conditional_t<LevelDecoder<Isa, C>::kExists, LevelDecoder<Isa, C>, PortableDecoder<C>>;

}  // namespace cinch::host
