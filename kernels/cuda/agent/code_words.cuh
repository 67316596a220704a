// The codes of an octet: from eight numbers to the bytes of the planes that a block stores
// (kernels/wire/tile_layout.h), and back.
#pragma once

#include <type_traits>

#include "kernels/cuda/agent/warp_tile.cuh"

namespace cinch::cuda {

struct Codes {
  uint32_t at[kOctetElems];
};

// Eight elements of a plane: as many bytes as an element has bits.
template <uint32_t width>
struct PlaneWord {
  using Type = std::conditional_t<
      width == 8, uint2,
      std::conditional_t<width == 4, uint32_t, std::conditional_t<width == 2, uint16_t, uint8_t>>>;
};
template <>
struct PlaneWord<16> {
  using Type = uint4;
};

// `nBits` of each of up to 32 / nBits codes, from bit `shift` on.
template <uint32_t nBits, uint32_t shift, uint32_t nCodes>
__device__ uint32_t packed(const uint32_t* codes) {
  uint32_t word = 0;
#pragma unroll
  for (uint32_t i = 0; i < nCodes; ++i) {
    const uint32_t bits = codes[i] >> shift & ((1u << nBits) - 1);
    word |= bits << i * nBits;
  }
  return word;
}

template <uint32_t width, uint32_t shift>
__device__ typename PlaneWord<width>::Type packPlane(const Codes& codes) {
  if constexpr (width == 16)
    return {packed<16, shift, 2>(codes.at), packed<16, shift, 2>(codes.at + 2),
            packed<16, shift, 2>(codes.at + 4), packed<16, shift, 2>(codes.at + 6)};
  else if constexpr (width == 8)
    return {packed<8, shift, 4>(codes.at), packed<8, shift, 4>(codes.at + 4)};
  else
    return static_cast<typename PlaneWord<width>::Type>(packed<width, shift, 8>(codes.at));
}

template <uint32_t width>
__device__ uint32_t elementAt(typename PlaneWord<width>::Type word, uint32_t i) {
  uint32_t part;
  if constexpr (width == 16)
    part = i < 4 ? (i < 2 ? word.x : word.y) : (i < 6 ? word.z : word.w);
  else if constexpr (width == 8)
    part = i < 4 ? word.x : word.y;
  else
    part = word;
  constexpr uint32_t kPerPart = width >= 8 ? 32 / width : kOctetElems;
  return part >> i % kPerPart * width & ((1u << width) - 1);
}

// The first `nElems` elements of a plane, then zeros.
__device__ inline uint32_t keptBits(uint32_t word, uint32_t nBits) {
  return nBits < 32 ? word & ((1u << nBits) - 1) : word;
}
template <uint32_t width>
__device__ typename PlaneWord<width>::Type keptElements(typename PlaneWord<width>::Type word,
                                                        uint32_t nElems) {
  const auto part = [&](uint32_t bits, uint32_t index) {
    const uint32_t before = 32 * index, end = nElems * width;
    return end > before ? keptBits(bits, end - before) : 0;
  };
  if constexpr (width == 16)
    return {part(word.x, 0), part(word.y, 1), part(word.z, 2), part(word.w, 3)};
  else if constexpr (width == 8)
    return {part(word.x, 0), part(word.y, 1)};
  else
    return static_cast<typename PlaneWord<width>::Type>(part(word, 0));
}

// Codes of three bits are in a word, four bits apart, on their way to planes of two bits and one,
// and back: a third of the operations that code by code would take.
struct CodesApart {
  // Keeps the low `nBits` bits of each.
  template <uint32_t nBits>
  __device__ static uint32_t together(uint32_t apart) {
    constexpr uint32_t kOne = (1u << nBits) - 1, kTwo = (1u << 2 * nBits) - 1,
                       kFour = (1u << 4 * nBits) - 1;
    uint32_t word = apart & 0x11111111 * kOne;
    word = (word | word >> (4 - nBits)) & 0x01010101 * kTwo;
    word = (word | word >> (8 - 2 * nBits)) & 0x00010001 * kFour;
    return (word | word >> (16 - 4 * nBits)) & ((1u << 8 * nBits) - 1);
  }
  template <uint32_t nBits>
  __device__ static uint32_t apart(uint32_t together) {
    constexpr uint32_t kOne = (1u << nBits) - 1, kTwo = (1u << 2 * nBits) - 1,
                       kFour = (1u << 4 * nBits) - 1;
    uint32_t word = (together | together << (16 - 4 * nBits)) & 0x00010001 * kFour;
    word = (word | word << (8 - 2 * nBits)) & 0x01010101 * kTwo;
    return (word | word << (4 - nBits)) & 0x11111111 * kOne;
  }
};

// The planes of the codes of `bits` bits of one octet.
template <uint32_t bits>
struct CodeWords {
  static constexpr uint32_t kLow = wire::lowPlaneBits(bits), kHigh = wire::highPlaneBits(bits);
  static constexpr uint32_t kHighOffset = wire::kBlockElems * kLow / 8;
  using LowWord = typename PlaneWord<kLow>::Type;
  using HighWord = typename PlaneWord<kHigh>::Type;

  LowWord low;
  HighWord high;

  // Codes have no more than their bits.
  __device__ static CodeWords of(const Codes& codes) {
    CodeWords words = {};
    if constexpr (bits == 3) {
      uint32_t apart = codes.at[0];
#pragma unroll
      for (uint32_t i = 1; i < kOctetElems; ++i) apart += codes.at[i] << 4 * i;
      words.low = static_cast<LowWord>(CodesApart::together<2>(apart));
      words.high = static_cast<HighWord>(CodesApart::together<1>(apart >> 2));
      return words;
    }
    words.low = packPlane<kLow, 0>(codes);
    if constexpr (kHigh > 0) words.high = packPlane<kHigh, kLow>(codes);
    return words;
  }

  // Of octet `octet` of the block whose codes are at `block`.
  __device__ static CodeWords load(const uint8_t* block, uint32_t octet) {
    CodeWords words = {};
    words.low = __ldcs(reinterpret_cast<const LowWord*>(block) + octet);
    if constexpr (kHigh > 0)
      words.high = __ldcs(reinterpret_cast<const HighWord*>(block + kHighOffset) + octet);
    return words;
  }

  __device__ void store(uint8_t* block, uint32_t octet) const {
    reinterpret_cast<LowWord*>(block)[octet] = low;
    if constexpr (kHigh > 0) reinterpret_cast<HighWord*>(block + kHighOffset)[octet] = high;
  }

  // The first `n` codes, then zeros.
  __device__ CodeWords first(uint32_t n) const {
    CodeWords words = {};
    words.low = keptElements<kLow>(low, n);
    if constexpr (kHigh > 0) words.high = keptElements<kHigh>(high, n);
    return words;
  }

  __device__ Codes codes() const {
    Codes codes;
    if constexpr (bits == 3) {
      const uint32_t apart = CodesApart::apart<2>(low) | CodesApart::apart<1>(high) << 2;
#pragma unroll
      for (uint32_t i = 0; i < kOctetElems; ++i) codes.at[i] = apart >> 4 * i & 7;
    } else {
#pragma unroll
      for (uint32_t i = 0; i < kOctetElems; ++i) {
        codes.at[i] = elementAt<kLow>(low, i);
        if constexpr (kHigh > 0) codes.at[i] |= elementAt<kHigh>(high, i) << kLow;
      }
    }
    return codes;
  }
};

}  // namespace cinch::cuda
