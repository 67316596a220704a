// Where things are inside the tiles of a piece: the metadata of blocks, and their codes.
//
//   shard  = header, then its pieces
//   piece  = tiles of one codec
//   tile   = the metadata of its blocks, zeros up to a multiple of 16 bytes, the codes of its
//   blocks codes  = planes: the low bits of all codes of the block, then, where a code has 3, 5, 6
//   or 32 bits,
//            the bits above; in a plane of width w, value i is at bit i * w, least significant
//            first
//
// Planes are 1, 2, 4, 8 or 16 bits wide, so that an octet takes whole bytes of each.
#pragma once

#include "kernels/wire/wire_format.h"

namespace cinch::wire {

// Width of the first plane: the largest power of two that a code has bits for. The second has the
// rest; 0: there is none.
CINCH_HD constexpr uint32_t lowPlaneBits(uint32_t bits) {
  return bits >= 16 ? 16 : bits >= 8 ? 8 : bits >= 4 ? 4 : bits >= 2 ? 2 : 1;
}
CINCH_HD constexpr uint32_t highPlaneBits(uint32_t bits) {
  return bits - lowPlaneBits(bits);
}

// Offsets in a piece, from its first tile. `block` counts the piece's blocks from 0.
CINCH_HD constexpr uint64_t tileOffset(CodecFormat codec, uint64_t block) {
  return block / kTileBlocks * codec.tileBytes();
}
CINCH_HD constexpr uint64_t metaOffset(CodecFormat codec, uint64_t block) {
  return tileOffset(codec, block) + block % kTileBlocks * codec.blockMetaBytes;
}
CINCH_HD constexpr uint64_t codesOffset(CodecFormat codec, uint64_t block) {
  return tileOffset(codec, block) + codec.tileMetaBytes() +
         block % kTileBlocks * codec.blockCodeBytes();
}
// Of the second plane, from the codes of its block.
CINCH_HD constexpr uint32_t highPlaneOffset(CodecFormat codec) {
  return kBlockElems * lowPlaneBits(codec.bits) / 8;
}

// Element `index` of a plane of `width` bits.
CINCH_HD constexpr uint32_t extractBits(const uint8_t* plane, uint32_t width, uint32_t index) {
  if (width == 16) return plane[2 * index] | uint32_t{plane[2 * index + 1]} << 8;
  const uint32_t bit = index * width;
  return plane[bit / 8] >> bit % 8 & ((1u << width) - 1);
}
// Puts the low `width` bits of `value` where all were zero.
CINCH_HD constexpr void insertBits(uint8_t* plane, uint32_t width, uint32_t index, uint32_t value) {
  for (uint32_t n = 0; n < width; n += 8) {
    const uint32_t bit = index * width + n;
    const uint32_t part = value >> n & ((1u << (width < 8 ? width : 8)) - 1);
    plane[bit / 8] = static_cast<uint8_t>(plane[bit / 8] | part << bit % 8);
  }
}

// The code of value `index` in the codes of a block.
CINCH_HD constexpr uint32_t extractCode(CodecFormat codec, const uint8_t* codes, uint32_t index) {
  const uint32_t low = lowPlaneBits(codec.bits), high = highPlaneBits(codec.bits);
  const uint32_t code = extractBits(codes, low, index);
  if (high == 0) return code;
  return code | extractBits(codes + highPlaneOffset(codec), high, index) << low;
}

// Puts a code into codes that were all zero there.
CINCH_HD constexpr void insertCode(CodecFormat codec, uint8_t* codes, uint32_t index,
                                   uint32_t code) {
  const uint32_t low = lowPlaneBits(codec.bits), high = highPlaneBits(codec.bits);
  insertBits(codes, low, index, code);
  if (high > 0) insertBits(codes + highPlaneOffset(codec), high, index, code >> low);
}

}  // namespace cinch::wire
