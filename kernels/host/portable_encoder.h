// Codes tiles with any codec, in plain loops over the codec's own functions, which compilers turn
// into vector code.
#pragma once

#include "kernels/host/code_planes.h"
#include "kernels/host/rotated_block.h"
#include "kernels/host/tile_codec.h"
#include "kernels/host/tile_elements.h"
#include "kernels/host/tile_metadata.h"

namespace cinch::host {

inline void compensateTile(const TileCoding& coding, float* compensated) {
  for (uint32_t i = 0; i < kTileElems; ++i)
    compensated[i] = coding.feedback.compensate(coding.values[i], coding.residual[i]);
}

inline void updateResidual(const TileCoding& coding, const float* decoded) {
  for (uint32_t i = 0; i < kTileElems; ++i)
    coding.residual[i] = coding.feedback.next(coding.residual[i], coding.values[i], decoded[i]);
}

inline void makeDithers(const TileCoding& coding, float* dithers) {
  for (uint32_t octet = 0; octet < wire::kTileOctets; ++octet) {
    const core::Random128 random = coding.dither->ofOctet(coding.place.firstOctet + octet);
    for (uint32_t i = 0; i < wire::kOctetElems; ++i)
      dithers[octet * wire::kOctetElems + i] = core::ditherOf(random, i);
  }
}

// Decoder decodes tiles of codec C: residuals and statistics need what the codes say. Rotation
// rotates tiles.
template <BlockCodec C, class Decoder, class Rotation>
class PortableEncoder {
 public:
  static void encode(const TileCoding& coding) {
    TileValues compensated, rotated, dithers;
    if (coding.residual) compensateTile(coding, compensated.at);
    const float* coded = coding.residual ? compensated.at : coding.values;
    if constexpr (C::kIsRotated) rotateCopy(coding, coded, rotated.at);
    const float* seen = C::kIsRotated ? rotated.at : coded;
    const bool isDithered = C::kDithers && coding.dither;
    if (isDithered) makeDithers(coding, dithers.at);

    TileMetadata<C> meta;
    meta.make(seen, seenValues(coding.nValues),
              isDithered ? Rounding::stochastic : Rounding::nearest);
    meta.store(coding.output);
    Codes codes;
    encodeValues(meta, seen, isDithered ? dithers.at : nullptr, codes);
    pack(codes, seenValues(coding.nValues), coding.output + C::kFormat.tileMetaBytes());
    if (coding.residual || coding.errors) lookBack(coding, coded);
  }

 private:
  using Scale = typename C::Scale;
  using Code = CodeOf<C::kFormat.bits>;

  struct alignas(64) Codes {
    Code at[kTileElems];
  };

  // Values that the codec sees: all of a rotated block.
  static uint32_t seenValues(uint32_t nValues) {
    return C::kIsRotated ? (nValues + kBlockElems - 1) / kBlockElems * kBlockElems : nValues;
  }

  static void rotateCopy(const TileCoding& coding, const float* values, float* rotated) {
    std::memcpy(rotated, values, coding.nValues * sizeof(float));
    std::fill(rotated + coding.nValues, rotated + kTileElems, 0.0f);
    Rotation::rotateTile(coding.place.rotationKey, coding.place.firstOctet, rotated);
  }

  // `dithers` is null to round to nearest.
  static void encodeValues(const TileMetadata<C>& meta, const float* seen, const float* dithers,
                           Codes& codes) {
    for (uint32_t first = 0; first < kTileElems; first += kBlockElems) {
      const Scale scale = meta.scaleOf(first / kBlockElems);
      if (scale.isMarked())
        std::memset(codes.at + first, 0, kBlockElems * sizeof(Code));
      else if (dithers)
        encodeBlock(scale, seen + first, dithers + first, codes.at + first);
      else
        encodeBlock(scale, seen + first, codes.at + first);
    }
  }

  static void encodeBlock(const Scale& scale, const float* seen, Code* codes) {
    for (uint32_t i = 0; i < kBlockElems; ++i)
      codes[i] = static_cast<Code>(scale.codeAt(scale.position(seen[i])));
  }
  static void encodeBlock(const Scale& scale, const float* seen, const float* dithers,
                          Code* codes) {
    for (uint32_t i = 0; i < kBlockElems; ++i)
      codes[i] = static_cast<Code>(scale.codeAt(scale.position(seen[i]) + dithers[i]));
  }

  // Values that do not exist have codes 0.
  static void pack(Codes& codes, uint32_t nValues, uint8_t* packed) {
    std::memset(codes.at + nValues, 0, (kTileElems - nValues) * sizeof(Code));
    for (uint32_t block = 0; block < wire::kTileBlocks; ++block)
      packCodes<C::kFormat.bits>(codes.at + block * kBlockElems,
                                 packed + block * C::kFormat.blockCodeBytes());
  }

  // Compares what the codes say with what was coded.
  static void lookBack(const TileCoding& coding, const float* coded) {
    TileValues decoded;
    Decoder::decode({coding.output, coding.place, decoded.at});
    if (coding.residual) updateResidual(coding, decoded.at);
    if (coding.errors) coding.errors->add(coded, decoded.at, coding.nValues);
  }
};

}  // namespace cinch::host
