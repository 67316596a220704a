// The block codec over whole blocks, in loops that compilers turn into vector code: fixed length,
// local arrays, no branches. Every value goes through the functions of core/ and element/, so the
// results are theirs on any instruction set.
#pragma once

#include <cstring>

#include "kernels/core/block_codec.h"
#include "kernels/wire/tile_layout.h"

namespace cinch::host {

using wire::Codec;
using wire::kBlockElems;

// The values of one block, on their way.
struct alignas(64) BlockValues {
  float at[kBlockElems];
};
struct alignas(64) BlockCodes {
  uint8_t at[kBlockElems];
};

template <ElementType type>
inline void loadAs(const void* input, BlockValues& values) {
  using Traits = ElementTraits<type>;
  const auto* elements = static_cast<const typename Traits::Storage*>(input);
  for (uint32_t i = 0; i < kBlockElems; ++i) values.at[i] = Traits::toFloat(elements[i]);
}

inline void loadValues(ElementType type, const void* input, BlockValues& values) {
  switch (type) {
    case ElementType::fp32:
      return loadAs<ElementType::fp32>(input, values);
    case ElementType::fp16:
      return loadAs<ElementType::fp16>(input, values);
    case ElementType::bf16:
      return loadAs<ElementType::bf16>(input, values);
  }
}

// Stores the values; returns whether all of them are finite as stored.
template <ElementType type>
inline bool storeAs(const BlockValues& values, void* output) {
  using Traits = ElementTraits<type>;
  auto* elements = static_cast<typename Traits::Storage*>(output);
  uint32_t nonFinite = 0;
  for (uint32_t i = 0; i < kBlockElems; ++i) {
    elements[i] = Traits::fromFloat(values.at[i]);
    nonFinite |= Traits::isStorageFinite(elements[i]) ? 0u : 1u;
  }
  return nonFinite == 0;
}

inline bool storeValues(ElementType type, const BlockValues& values, void* output) {
  switch (type) {
    case ElementType::fp32:
      return storeAs<ElementType::fp32>(values, output);
    case ElementType::fp16:
      return storeAs<ElementType::fp16>(values, output);
    case ElementType::bf16:
      return storeAs<ElementType::bf16>(values, output);
  }
  return false;
}

inline void fill(BlockValues& values, float value) {
  for (float& each : values.at) each = value;
}

inline void multiplyAll(BlockValues& values, float factor) {
  if (factor == 1.0f) return;  // changes nothing, and is the usual one
  for (float& each : values.at) each *= factor;
}

inline void compensateAll(const BlockValues& values, float gain, const float* residual,
                          BlockValues& compensated) {
  for (uint32_t i = 0; i < kBlockElems; ++i)
    compensated.at[i] = core::compensate(values.at[i], gain, residual[i]);
}

inline core::ValueRange rangeOf(const BlockValues& values) {
  int32_t low = INT32_MAX, high = INT32_MIN;
  for (uint32_t i = 0; i < kBlockElems; ++i) {
    const int32_t ordered = core::orderedBits(values.at[i]);
    low = ordered < low ? ordered : low;
    high = ordered > high ? ordered : high;
  }
  return {low, high};
}

inline void encodeAll(const core::BlockScale& scale, const BlockValues& values, BlockCodes& codes) {
  for (uint32_t i = 0; i < kBlockElems; ++i)
    codes.at[i] = static_cast<uint8_t>(scale.encode(values.at[i]));
}

inline void decodeAll(const core::BlockScale& scale, const BlockCodes& codes, BlockValues& values) {
  for (uint32_t i = 0; i < kBlockElems; ++i) values.at[i] = scale.decode(codes.at[i]);
}

inline void updateResidual(const BlockValues& values, const BlockValues& decoded, float* residual) {
  for (uint32_t i = 0; i < kBlockElems; ++i)
    residual[i] = core::nextResidual(residual[i], values.at[i], decoded.at[i]);
}

// Packs codes of kBits each: neighbours are folded together inside a word, whose low byte is kept.
template <class Word, uint32_t kBits>
inline void packAs(const BlockCodes& codes, uint8_t* packed) {
  for (uint32_t i = 0; i < kBlockElems / sizeof(Word); ++i) {
    Word word;
    std::memcpy(&word, codes.at + i * sizeof(Word), sizeof(Word));
    uint32_t folded = 0;
    for (uint32_t n = 0; n < sizeof(Word); ++n) folded |= word >> (n * (8 - kBits));
    packed[i] = static_cast<uint8_t>(folded);
  }
}

template <class Word, uint32_t kBits>
inline void unpackAs(const uint8_t* packed, BlockCodes& codes) {
  constexpr uint32_t kMask = (1u << kBits) - 1;
  for (uint32_t i = 0; i < kBlockElems / sizeof(Word); ++i) {
    uint32_t spread = 0;
    for (uint32_t n = 0; n < sizeof(Word); ++n)
      spread |= (packed[i] & kMask << (n * kBits)) << (n * (8 - kBits));
    const Word word = static_cast<Word>(spread);
    std::memcpy(codes.at + i * sizeof(Word), &word, sizeof(Word));
  }
}

inline void packCodes(Codec codec, const BlockCodes& codes, uint8_t* packed) {
  switch (codec) {
    case Codec::q2:
      return packAs<uint32_t, 2>(codes, packed);
    case Codec::q4:
      return packAs<uint16_t, 4>(codes, packed);
    case Codec::q8:
      std::memcpy(packed, codes.at, kBlockElems);
      return;
  }
}

inline void unpackCodes(Codec codec, const uint8_t* packed, BlockCodes& codes) {
  switch (codec) {
    case Codec::q2:
      return unpackAs<uint32_t, 2>(packed, codes);
    case Codec::q4:
      return unpackAs<uint16_t, 4>(packed, codes);
    case Codec::q8:
      std::memcpy(codes.at, packed, kBlockElems);
      return;
  }
}

}  // namespace cinch::host
