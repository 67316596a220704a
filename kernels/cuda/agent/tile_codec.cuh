// One tile through a codec, by one warp. Values are what the codec sees: rotated, where it says so.
#pragma once

#include "kernels/core/random.h"
#include "kernels/cuda/agent/block_metadata.cuh"
#include "kernels/cuda/agent/code_words.cuh"
#include "kernels/cuda/agent/tile_array.cuh"

namespace cinch::cuda {

inline constexpr float kNan = __builtin_nanf("");

// Which tile of a shard, and how much of it the codec sees.
struct TilePlace {
  uint32_t tile;
  TileExtent extent;
};

// Rounds to nearest, or to whichever side the dither decides.
struct ToNearest {
  static constexpr bool kMayDither = false;
};
struct AsToldByRule {
  static constexpr bool kMayDither = true;
  bool dithers;
  core::DitherKey key;
};

template <BlockCodec C>
class TileCodec {
 public:
  __device__ explicit TileCodec(const TilePlace& place) : place_(place) {}

  // What `tile` says. All lanes of the warp call it together.
  __device__ __forceinline__ TileValues decode(const uint8_t* tile) const {
    Words words[kSlots];
#pragma unroll
    for (uint32_t slot = 0; slot < kSlots; ++slot)
      words[slot] = Words::load(codesAt(tile), octetOfBlock(slot));
    const Scale scale = BlockMetadata<C>::load(tile).scale();
    TileValues values;
#pragma unroll
    for (uint32_t slot = 0; slot < kSlots; ++slot)
      decode(scale, words[slot].codes(), values.at[slot]);
    return orNan(scale, values);
  }

  // Writes all of `tile`, and returns what it decodes to. Values that do not exist may be any. All
  // lanes of the warp call it together.
  template <class Rounder>
  __device__ __forceinline__ TileValues encode(const TileValues& values, const Rounder& rounder,
                                               uint8_t* tile) const {
    constexpr bool kIsShort = Rounder::kMayDither;  // a kernel that many codecs share
    const auto metadata =
        BlockMetadata<C>::template of<kIsShort>(values, place_.extent, roundingOf(rounder));
    metadata.store(tile);
    if constexpr (kIsShort)
      return encodeBySlots(metadata.scale(), values, rounder, tile);
    else
      return encodeAtOnce(metadata.scale(), values, rounder, tile);
  }

 private:
  using Scale = typename C::Scale;
  using Words = CodeWords<C::kFormat.bits>;

  // The codes of this lane's block, and which octet of it a slot is.
  template <class Byte>
  __device__ static Byte* codesAt(Byte* tile) {
    return tile + C::kFormat.tileMetaBytes() +
           laneOfWarp() / kLanesPerRow * C::kFormat.blockCodeBytes();
  }
  __device__ static uint32_t octetOfBlock(uint32_t slot) {
    return octetOf(slot) % kRowOctets;
  }

  template <class Rounder>
  __device__ static Rounding roundingOf(const Rounder& rounder) {
    if constexpr (Rounder::kMayDither && C::kDithers)
      if (rounder.dithers) return Rounding::stochastic;
    return Rounding::nearest;
  }

  template <class Rounder>
  __device__ TileValues encodeAtOnce(const Scale& scale, const TileValues& values,
                                     const Rounder& rounder, uint8_t* tile) const {
    Words words[kSlots];
    TileValues decoded;
#pragma unroll
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      const Codes codes = codesOf(scale, values.at[slot], rounder, slot);
      words[slot] = wordsOf(scale, codes);
      decode(scale, codes, decoded.at[slot]);
    }
    if (!place_.extent.isWhole()) {
      markCold();
#pragma unroll
      for (uint32_t slot = 0; slot < kSlots; ++slot)
        words[slot] = words[slot].first(place_.extent.ofSlot(slot));
    }
#pragma unroll
    for (uint32_t slot = 0; slot < kSlots; ++slot)
      words[slot].store(codesAt(tile), octetOfBlock(slot));
    return orNan(scale, decoded);
  }

  // The same in a quarter of the code: where many codecs share a kernel.
  template <class Rounder>
  __device__ __forceinline__ TileValues encodeBySlots(const Scale& scale, TileValues values,
                                                      const Rounder& rounder, uint8_t* tile) const {
    ValuesInWindow window;
    forEachValue([&](uint32_t slot, uint32_t i) { window.at(slot, i) = values.at[slot][i]; });
#pragma unroll 1
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      float octet[kOctetElems];
#pragma unroll
      for (uint32_t i = 0; i < kOctetElems; ++i) octet[i] = window.at(slot, i);
      const Codes codes = codesOf(scale, octet, rounder, slot);
      const Words words = wordsOf(scale, codes).first(place_.extent.ofSlot(slot));
      words.store(codesAt(tile), octetOfBlock(slot));
#pragma unroll
      for (uint32_t i = 0; i < kOctetElems; ++i)
        window.at(slot, i) = scale.isMarked() ? kNan : scale.decode(codes.at[i]);
    }
    forEachValue([&](uint32_t slot, uint32_t i) { values.at[slot][i] = window.at(slot, i); });
    return values;
  }

  template <class Rounder>
  __device__ Codes codesOf(const Scale& scale, const float (&values)[kOctetElems],
                           const Rounder& rounder, uint32_t slot) const {
    float position[kOctetElems];
#pragma unroll
    for (uint32_t i = 0; i < kOctetElems; ++i) position[i] = scale.position(values[i]);
    if constexpr (Rounder::kMayDither && C::kDithers)
      if (rounder.dithers) {
        const auto random = rounder.key.ofOctet(place_.tile * kTileOctets + octetOf(slot));
#pragma unroll
        for (uint32_t i = 0; i < kOctetElems; ++i) position[i] += core::ditherOf(random, i);
      }
    Codes codes;
#pragma unroll
    for (uint32_t i = 0; i < kOctetElems; ++i) codes.at[i] = scale.codeAt(position[i]);
    return codes;
  }

  __device__ static Words wordsOf(const Scale& scale, const Codes& codes) {
    const Words words = Words::of(codes);
    return scale.isMarked() ? Words{} : words;
  }

  __device__ static void decode(const Scale& scale, const Codes& codes,
                                float (&values)[kOctetElems]) {
#pragma unroll
    for (uint32_t i = 0; i < kOctetElems; ++i) values[i] = scale.decode(codes.at[i]);
  }

  // What a marked block decodes to, instead of its values.
  __device__ static TileValues orNan(const Scale& scale, TileValues values) {
    if (scale.isMarked()) {
      markCold();
      values = filled(kNan);
    }
    return values;
  }

  TilePlace place_;
};

}  // namespace cinch::cuda
