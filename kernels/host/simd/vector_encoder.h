// Codes tiles with the vector instructions of an Isa (avx512.h, avx2.h), value for value what
// PortableEncoder does.
//
// Include only where those instructions are switched on for everything that follows.
#pragma once

#include "kernels/host/portable_encoder.h"
#include "kernels/host/simd/vector_decoder.h"

namespace cinch::host {

// The way of all that is not special.
template <class Isa, BlockCodec C>
using UsualEncoder = PortableEncoder<C, VectorDecoder<Isa, C>, VectorRotation<Isa>>;

// Codes tiles, block by block, with all that happens to a value in registers. The rest goes the
// usual way: partial tiles, dither, statistics, and tiles with a NaN or an infinity.
template <class Isa, BlockCodec C>
class LinearEncoder {
 public:
  static constexpr bool kExists = IsLinear<Isa, typename C::Scale>;

  static void encode(const TileCoding& coding) {
    const bool isPlain = coding.nValues == kTileElems && !coding.dither && !coding.errors;
    if (!isPlain || !(coding.residual ? encodeTile<true>(coding) : encodeTile<false>(coding)))
      UsualEncoder<Isa, C>::encode(coding);
  }

 private:
  using Floats = typename Isa::Floats;
  using Scale = VectorScale<Isa, typename C::Scale>;
  using Summary = VectorSummary<Isa, typename C::Summary>;
  using BlockMeta = typename C::BlockMeta;

  static constexpr uint32_t kBits = C::kFormat.bits;
  static constexpr uint32_t kLow = wire::lowPlaneBits(kBits), kHigh = wire::highPlaneBits(kBits);
  static constexpr uint32_t kTileBlocks = wire::kTileBlocks, kLanes = Isa::kLanes;
  static constexpr float kRounder = 0x1p23f;  // codec::roundToCode

  // False where a value is not finite: nothing has been written then.
  template <bool hasResidual>
  static bool encodeTile(const TileCoding& coding) {
    alignas(64) BlockMeta metas[kTileBlocks];
    for (uint32_t block = 0; block < kTileBlocks; ++block) {
      const Summary summary = summaryOf<hasResidual>(coding, block * kBlockElems);
      if (!summary.isFinite()) return false;
      metas[block] = C::blockMeta(summary.result(), kBlockElems, Rounding::nearest);
    }
    std::memset(coding.output, 0, C::kFormat.tileMetaBytes());
    std::memcpy(coding.output, metas, sizeof metas);
    for (uint32_t block = 0; block < kTileBlocks; ++block)
      encodeBlock<hasResidual>(coding, block, Scale(typename C::Scale(metas[block])));
    return true;
  }

  template <bool hasResidual>
  static Floats codedAt(const TileCoding& coding, uint32_t index) {
    const Floats values = Isa::load(coding.values + index);
    if constexpr (!hasResidual) return values;
    return values + coding.feedback.gain * Isa::load(coding.residual + index);
  }

  template <bool hasResidual>
  static Summary summaryOf(const TileCoding& coding, uint32_t first) {
    Summary summary(codedAt<hasResidual>(coding, first));
    for (uint32_t i = kLanes; i < kBlockElems; i += kLanes)
      summary.add(codedAt<hasResidual>(coding, first + i));
    return summary;
  }

  template <bool hasResidual>
  static void encodeBlock(const TileCoding& coding, uint32_t block, const Scale& scale) {
    uint8_t* output =
        coding.output + C::kFormat.tileMetaBytes() + block * C::kFormat.blockCodeBytes();
    for (uint32_t i = 0; i < kBlockElems; i += 4 * kLanes) {
      const uint32_t index = block * kBlockElems + i;
      const auto codes = Isa::lowBytes(encodeAt<hasResidual>(coding, scale, index),
                                       encodeAt<hasResidual>(coding, scale, index + kLanes),
                                       encodeAt<hasResidual>(coding, scale, index + 2 * kLanes),
                                       encodeAt<hasResidual>(coding, scale, index + 3 * kLanes));
      storePlanes(codes, i, output);
    }
  }

  static void storePlanes(typename Isa::CodeBytes codes, uint32_t index, uint8_t* output) {
    if constexpr (kHigh == 0) {
      Isa::template storePlane<kLow>(codes, output + index * kLow / 8);
    } else {
      Isa::template storePlane<kLow>(Isa::template bitsOf<0, kLow>(codes),
                                     output + index * kLow / 8);
      Isa::template storePlane<kHigh>(Isa::template bitsOf<kLow, kHigh>(codes),
                                      output + kBlockElems * kLow / 8 + index * kHigh / 8);
    }
  }

  // Floats with codes in their low bits.
  template <bool hasResidual>
  static Floats encodeAt(const TileCoding& coding, const Scale& scale, uint32_t index) {
    const Floats position = scale.position(codedAt<hasResidual>(coding, index));
    const Floats rounded = Isa::clampFromZero(position, Scale::kTopCode) + kRounder;
    if constexpr (hasResidual) updateResidual(coding, index, scale.decode(rounded - kRounder));
    return rounded;
  }

  static void updateResidual(const TileCoding& coding, uint32_t index, Floats decoded) {
    const Floats residual = Isa::load(coding.residual + index);
    const Floats next =
        coding.feedback.decay * residual + (Isa::load(coding.values + index) - decoded);
    Isa::store(Isa::zeroWhereNotFinite(next), coding.residual + index);
  }
};

template <class Isa, BlockCodec C>
using VectorEncoder =
    std::conditional_t<LinearEncoder<Isa, C>::kExists, LinearEncoder<Isa, C>, UsualEncoder<Isa, C>>;

}  // namespace cinch::host
