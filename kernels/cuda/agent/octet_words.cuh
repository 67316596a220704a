// An octet as it lies in memory: the words of eight elements, and the way between them and fp32.
#pragma once

#include "kernels/cuda/agent/instructions.cuh"
#include "kernels/cuda/agent/warp_tile.cuh"

namespace cinch::cuda {

inline constexpr uint32_t kVectorBytes = 16;
inline constexpr uint32_t kVectorWords = kVectorBytes / sizeof(uint32_t);

template <class Storage>
inline constexpr uint32_t kOctetWords = kOctetElems * sizeof(Storage) / sizeof(uint32_t);

template <class Storage>
struct OctetWords {
  uint32_t at[kOctetWords<Storage>];
};

// This lane's octets of a tile.
template <class Storage>
struct TileWords {
  OctetWords<Storage> ofSlot[kSlots];
};

template <ElementType type>
using StorageOf = typename ElementTraits<type>::Storage;
template <ElementType type>
using OctetWordsOf = OctetWords<StorageOf<type>>;

template <ElementType type>
__device__ float valueOf(const OctetWordsOf<type>& words, uint32_t i) {
  if constexpr (type == ElementType::fp32) return floatOfBits(words.at[i]);
  const uint32_t pair = words.at[i / 2];
  if constexpr (type == ElementType::bf16)
    return floatOfBits(i % 2 ? pair & 0xffff0000 : pair << 16);
  return i % 2 ? highFp16(pair) : lowFp16(pair);
}

// Rounds two values to 16-bit elements.
template <ElementType type>
__device__ uint32_t packExactly(float low, float high) {
  using Traits = ElementTraits<type>;
  return Traits::fromFloat(low) | uint32_t{Traits::fromFloat(high)} << 16;
}

// Does as ElementTraits, but for NaN, which may have any bits.
template <ElementType type>
__device__ OctetWordsOf<type> roundedButNan(const float (&values)[kOctetElems]) {
  OctetWordsOf<type> words;
#pragma unroll
  for (uint32_t i = 0; i < kOctetWords<StorageOf<type>>; ++i) {
    if constexpr (type == ElementType::fp32)
      words.at[i] = bitsOfFloat(values[i]);
    else if constexpr (type == ElementType::fp16)
      words.at[i] = packFp16(values[2 * i], values[2 * i + 1]);
    else if constexpr (kHasPackBf16)
      words.at[i] = packBf16(values[2 * i], values[2 * i + 1]);
    else
      words.at[i] = packExactly<type>(values[2 * i], values[2 * i + 1]);
  }
  return words;
}

// The one NaN of the type for every NaN.
template <ElementType type>
__device__ void makeNanCanonical(OctetWordsOf<type>& words) {
  using Traits = ElementTraits<type>;
#pragma unroll
  for (uint32_t& word : words.at) {
    if constexpr (type == ElementType::fp32) {
      word = bitsOfFloat(Traits::fromFloat(floatOfBits(word)));
    } else {
      if ((word & 0x7fff) > Traits::kInfinity) word = (word & 0xffff0000) | Traits::kCanonicalNan;
      if ((word >> 16 & 0x7fff) > Traits::kInfinity)
        word = (word & 0xffff) | uint32_t{Traits::kCanonicalNan} << 16;
    }
  }
}

}  // namespace cinch::cuda
