// Wire format v1: what an encoded shard looks like, byte by byte, and how large it is.
//
// Pure arithmetic on sizes and offsets: no CUDA, no codec. docs/wire-format.md draws the layout;
// this file is the one place that the code takes it from. Everything is little-endian.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#define CINCH_HD __host__ __device__
#else
#define CINCH_HD
#endif

namespace cinch::wire {

// Version 1: the first. A reader refuses every version that it does not know.
inline constexpr uint8_t kVersion = 1;
inline constexpr uint16_t kMagic = 0xC19C;

// A block shares one (step, minimum) pair; a tile is the smallest self-contained run of blocks.
inline constexpr uint32_t kBlockElems = 128;
inline constexpr uint32_t kTileBlocks = 8;
inline constexpr uint32_t kTileElems = kBlockElems * kTileBlocks;
inline constexpr uint32_t kBlockMetaBytes = 4;  // bf16 step, then bf16 minimum
inline constexpr uint32_t kTileMetaBytes = kBlockMetaBytes * kTileBlocks;

// Blockwise uniform codecs; the value is the number of bits per code.
enum class Codec : uint8_t { q2 = 2, q4 = 4, q8 = 8 };

CINCH_HD constexpr uint32_t bitsOf(Codec codec) {
  return static_cast<uint32_t>(codec);
}

// Bytes of one encoded tile: the pairs of its blocks, then the codes of its blocks.
CINCH_HD constexpr uint32_t tileBytes(Codec codec) {
  return kTileMetaBytes + kTileElems * bitsOf(codec) / 8;
}

// First 16 bytes of every encoded shard.
//
//   offset  size  field
//        0     2  magic    0xC19C
//        2     1  version  1
//        3     1  codec    bits per code: 2, 4 or 8
//        4     4  planId   hash of the plan that both sides computed
//        8     4  slot     which recurring call of the communicator
//       12     4  ordinal  how often this slot has run, counted on the device, from 1
struct ShardHeader {
  uint16_t magic;
  uint8_t version;
  uint8_t codec;
  uint32_t planId;
  uint32_t slot;
  uint32_t ordinal;
};
static_assert(sizeof(ShardHeader) == 16);
static_assert(offsetof(ShardHeader, planId) == 4 && offsetof(ShardHeader, ordinal) == 12);

inline constexpr uint32_t kHeaderBytes = sizeof(ShardHeader);

// How a bucket of `count` values is cut into `nShards` shards; shard i belongs to rank i. Each is
// stored in `strideBytes()`, the largest one's size, so that exchange and gather move equal
// messages.
//
// Where the cut is free (AllReduce) it lies at tile borders and shards differ by at most one tile.
// Where NCCL's call fixes it (ReduceScatter, AllGather) every shard has `fixedShard` values and its
// own, possibly partial, last tile.
struct ShardLayout {
  uint64_t count;    // values in the bucket
  uint32_t nShards;  // ranks
  Codec codec;
  uint64_t fixedShard = 0;  // values per shard, count = nShards * fixedShard; 0: the cut is free

  // A bucket whose shards are fixed.
  CINCH_HD static constexpr ShardLayout fixed(uint64_t shardElems, uint32_t nShards, Codec codec) {
    return {shardElems * nShards, nShards, codec, shardElems};
  }

  // Tiles are numbered through the whole bucket, in the order of the shards.
  CINCH_HD constexpr uint64_t tiles() const {
    return fixedShard ? nShards * tilesOf(fixedShard) : tilesOf(count);
  }
  CINCH_HD constexpr uint64_t firstTile(uint32_t shard) const {
    const uint64_t base = tiles() / nShards, extra = tiles() % nShards;
    return shard * base + (shard < extra ? shard : extra);
  }
  CINCH_HD constexpr uint64_t shardTiles(uint32_t shard) const {
    return firstTile(shard + 1) - firstTile(shard);
  }
  // First value of a shard, and how many it has (its last tile may be partial).
  CINCH_HD constexpr uint64_t firstElem(uint32_t shard) const {
    if (fixedShard) return shard * fixedShard;
    const uint64_t elem = firstTile(shard) * kTileElems;
    return elem < count ? elem : count;
  }
  CINCH_HD constexpr uint64_t shardElems(uint32_t shard) const {
    return firstElem(shard + 1) - firstElem(shard);
  }
  CINCH_HD constexpr uint64_t strideBytes() const {
    return kHeaderBytes + shardTiles(0) * tileBytes(codec);
  }
  CINCH_HD constexpr uint64_t totalBytes() const { return strideBytes() * nShards; }

  CINCH_HD static constexpr uint64_t tilesOf(uint64_t elems) {
    return (elems + kTileElems - 1) / kTileElems;
  }
};

}  // namespace cinch::wire
