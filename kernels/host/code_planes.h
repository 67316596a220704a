// Codes, one per byte or half word, into the planes that a block stores (kernels/wire/
// tile_layout.h), and back.
#pragma once

#include <cstring>
#include <type_traits>

#include "kernels/wire/tile_layout.h"

namespace cinch::host {

using wire::kBlockElems;

// The memory of a code on its way.
template <uint32_t bits>
using CodeOf =
    std::conditional_t<(bits > 16), uint32_t, std::conditional_t<(bits > 8), uint16_t, uint8_t>>;

// As many codes as fill a byte of a plane, in one word.
template <uint32_t width>
using CodeWord =
    std::conditional_t<width == 4, uint16_t, std::conditional_t<width == 2, uint32_t, uint64_t>>;

// Packs `width` bits of each code, from bit `shift` on: neighbours are folded together inside a
// word, whose low byte is kept. Codes have no bits above.
template <uint32_t width, uint32_t shift>
inline void packPlane(const uint8_t* codes, uint8_t* plane) {
  using Word = CodeWord<width>;
  constexpr Word kMask = static_cast<Word>(0x0101010101010101 * ((1u << width) - 1));
  for (uint32_t i = 0; i < kBlockElems / sizeof(Word); ++i) {
    Word word;
    std::memcpy(&word, codes + i * sizeof(Word), sizeof(Word));
    word = static_cast<Word>(word >> shift & kMask);
    Word folded = 0;
    for (uint32_t n = 0; n < sizeof(Word); ++n)
      folded = static_cast<Word>(folded | word >> (n * (8 - width)));
    plane[i] = static_cast<uint8_t>(folded);
  }
}

// Adds the bits of a plane to codes that have none from bit `shift` on.
template <uint32_t width, uint32_t shift>
inline void unpackPlane(const uint8_t* plane, uint8_t* codes) {
  using Word = CodeWord<width>;
  constexpr Word kMask = (1u << width) - 1;
  for (uint32_t i = 0; i < kBlockElems / sizeof(Word); ++i) {
    Word word = 0;
    for (uint32_t n = 0; n < sizeof(Word); ++n)
      word = static_cast<Word>(word | (plane[i] & kMask << (n * width)) << (n * (8 - width)));
    if constexpr (shift > 0) {
      Word low;
      std::memcpy(&low, codes + i * sizeof(Word), sizeof(Word));
      word = static_cast<Word>(word << shift | low);
    }
    std::memcpy(codes + i * sizeof(Word), &word, sizeof(Word));
  }
}

// Codes of 32 bits are two planes of half words.
inline void packHalves(const uint32_t* codes, uint8_t* packed) {
  uint16_t halves[2][kBlockElems];
  for (uint32_t i = 0; i < kBlockElems; ++i) {
    halves[0][i] = static_cast<uint16_t>(codes[i]);
    halves[1][i] = static_cast<uint16_t>(codes[i] >> 16);
  }
  std::memcpy(packed, halves, sizeof halves);
}

inline void unpackHalves(const uint8_t* packed, uint32_t* codes) {
  uint16_t halves[2][kBlockElems];
  std::memcpy(halves, packed, sizeof halves);
  for (uint32_t i = 0; i < kBlockElems; ++i) codes[i] = halves[0][i] | uint32_t{halves[1][i]} << 16;
}

// The codes of one block.
template <uint32_t bits>
inline void packCodes(const CodeOf<bits>* codes, uint8_t* packed) {
  constexpr uint32_t kLow = wire::lowPlaneBits(bits), kHigh = wire::highPlaneBits(bits);
  if constexpr (bits == 32) {
    packHalves(codes, packed);
  } else if constexpr (kLow >= 8) {
    std::memcpy(packed, codes, kBlockElems * sizeof *codes);
  } else {
    packPlane<kLow, 0>(codes, packed);
    if constexpr (kHigh > 0) packPlane<kHigh, kLow>(codes, packed + kBlockElems * kLow / 8);
  }
}

template <uint32_t bits>
inline void unpackCodes(const uint8_t* packed, CodeOf<bits>* codes) {
  constexpr uint32_t kLow = wire::lowPlaneBits(bits), kHigh = wire::highPlaneBits(bits);
  if constexpr (bits == 32) {
    unpackHalves(packed, codes);
  } else if constexpr (kLow >= 8) {
    std::memcpy(codes, packed, kBlockElems * sizeof *codes);
  } else {
    unpackPlane<kLow, 0>(packed, codes);
    if constexpr (kHigh > 0) unpackPlane<kHigh, kLow>(packed + kBlockElems * kLow / 8, codes);
  }
}

}  // namespace cinch::host
