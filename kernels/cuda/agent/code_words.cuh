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

// The planes of the codes of `bits` bits of one octet.
template <uint32_t bits>
struct CodeWords {
  static constexpr uint32_t kLow = wire::lowPlaneBits(bits), kHigh = wire::highPlaneBits(bits);
  static constexpr uint32_t kHighOffset = wire::kBlockElems * kLow / 8;
  using LowWord = typename PlaneWord<kLow>::Type;
  using HighWord = typename PlaneWord<kHigh>::Type;

  LowWord low;
  HighWord high;

  __device__ static CodeWords of(const Codes& codes) {
    CodeWords words = {};
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

  __device__ uint32_t codeAt(uint32_t i) const {
    const uint32_t code = elementAt<kLow>(low, i);
    if constexpr (kHigh == 0) return code;
    return code | elementAt<kHigh>(high, i) << kLow;
  }
};

}  // namespace cinch::cuda
