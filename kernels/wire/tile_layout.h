// Where things are inside an encoded shard: the (step, minimum) pairs and the codes.
//
//   shard  = header, then its tiles
//   tile   = kTileBlocks pairs, then the codes of kTileBlocks blocks
//   pair   = bf16 step, bf16 minimum
//   codes  = value i of a block at bit i * bits, least significant bit first
#pragma once

#include "kernels/wire/wire_format.h"

namespace cinch::wire {

// Bytes that the codes of one block take.
CINCH_HD constexpr uint32_t blockCodeBytes(Codec codec) {
  return kBlockElems * bitsOf(codec) / 8;
}

// Offsets in a shard, from its header. `block` counts the shard's blocks from 0.
CINCH_HD constexpr uint64_t tileOffset(Codec codec, uint64_t tile) {
  return kHeaderBytes + tile * tileBytes(codec);
}
CINCH_HD constexpr uint64_t pairOffset(Codec codec, uint64_t block) {
  return tileOffset(codec, block / kTileBlocks) + block % kTileBlocks * kBlockMetaBytes;
}
CINCH_HD constexpr uint64_t codesOffset(Codec codec, uint64_t block) {
  return tileOffset(codec, block / kTileBlocks) + kTileMetaBytes +
         block % kTileBlocks * blockCodeBytes(codec);
}

// The code of value `index` in the codes of a block.
CINCH_HD constexpr uint32_t extractCode(Codec codec, const uint8_t* codes, uint32_t index) {
  const uint32_t bit = index * bitsOf(codec);
  return codes[bit / 8] >> bit % 8 & ((1u << bitsOf(codec)) - 1);
}

// Puts a code into codes that were all zero there.
CINCH_HD constexpr void insertCode(Codec codec, uint8_t* codes, uint32_t index, uint32_t code) {
  const uint32_t bit = index * bitsOf(codec);
  codes[bit / 8] = static_cast<uint8_t>(codes[bit / 8] | code << bit % 8);
}

}  // namespace cinch::wire
