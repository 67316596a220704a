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

// An octet is what one lane of a GPU holds; a block shares its metadata; a tile is the smallest
// self-contained run of blocks.
inline constexpr uint32_t kOctetElems = 8;
inline constexpr uint32_t kBlockElems = 128;
inline constexpr uint32_t kTileElems = 1024;
inline constexpr uint32_t kTileOctets = kTileElems / kOctetElems;
inline constexpr uint32_t kTileBlocks = kTileElems / kBlockElems;

// Metadata of a tile is padded to this, so that codes and tiles stay aligned.
inline constexpr uint32_t kAlignment = 16;

// The sizes of a codec, and the number by which headers name it. Each codec of kernels/codec states
// its own; this layer knows none.
struct CodecFormat {
  uint8_t id;              // 0: none
  uint8_t bits;            // of a code: 1 to 6, 8, 16 or 32
  uint8_t blockMetaBytes;  // what a block stores besides its codes

  CINCH_HD constexpr bool operator==(const CodecFormat& other) const { return id == other.id; }

  // Bytes of one encoded tile: the metadata of its blocks, then their codes.
  CINCH_HD constexpr uint32_t tileMetaBytes() const {
    return (kTileBlocks * blockMetaBytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  CINCH_HD constexpr uint32_t tileBytes() const { return tileMetaBytes() + kTileElems * bits / 8; }
  CINCH_HD constexpr uint32_t blockCodeBytes() const { return kBlockElems * bits / 8; }
};

// First 16 bytes of every encoded shard.
//
//   offset  size  field
//        0     2  magic    0xC19C
//        2     1  version  1
//        3     1  codec    id of the codec, or kMixedCodec
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

// In the header of a shard whose pieces have codecs of their own: the plan says which.
inline constexpr uint8_t kMixedCodec = 255;

// A run of whole tiles of a shard that share a codec.
struct Piece {
  uint64_t firstTile;  // counted from the first of the shard
  uint64_t nTiles;     // the last may be partial, or lie past the shard's values
  uint64_t offset;     // of its first tile, in bytes from the shard's header
  CodecFormat codec;
};

// A shard of a mixed layout, or a chunk of one.
struct MixedShard {
  uint64_t firstTile;  // in the bucket
  uint32_t firstPiece;
  uint32_t nPieces;
  uint64_t usedBytes;  // header and tiles; zeros follow up to the stride
};

// A bit for each id below 64, and one for all of experiments.
CINCH_HD constexpr uint64_t codecBit(CodecFormat codec) {
  return uint64_t{1} << (codec.id < 64 ? codec.id : 0);
}

inline constexpr uint32_t kWholeShards = UINT32_MAX;

// How a bucket of `count` values is cut into `nShards` shards; shard i belongs to rank i. Each is
// stored in `strideBytes()`, the largest one's size, so that exchange and gather move equal
// messages.
//
// Where the cut is free (AllReduce) it lies at tile borders, and shards differ by at most one tile
// (for each chunk, see below).
// Where NCCL's call fixes it (ReduceScatter, AllGather) every shard has `fixedShard` values and its
// own, possibly partial, last tile. Where segments of the bucket have codecs of their own it is
// mixed: mixed_layout.h makes the tables, which whoever uses the layout must be able to read: a
// launch's lie in device memory.
//
// So that some tiles of a large bucket can be coded while others are on the wire, shards may be cut
// on into `nChunks` chunks (where the cut is free), of nearly equal sizes again. The layout of a
// chunk (ofChunk()) is that of a bucket of which only these tiles exist: each of its shards has a
// header of its own, and what it says of sizes and places is of the chunk. Values, tiles and
// residuals keep their places in the bucket.
struct ShardLayout {
  uint64_t count;    // values in the bucket
  uint32_t nShards;  // ranks
  CodecFormat codec;
  uint64_t fixedShard = 0;  // values per shard, count = nShards * fixedShard; 0: the cut is free
  uint32_t nChunks = 1;     // of a shard
  uint32_t chunk = kWholeShards;  // which of them this is about

  const MixedShard* mixedShards = nullptr;  // nShards * nChunks; null: one codec for all
  uint64_t mixedCodecs = 0;                 // of its pieces: see codecBit()
  const Piece* mixedPieces = nullptr;
  uint64_t mixedStride = 0;

  // A bucket whose shards are fixed.
  CINCH_HD static constexpr ShardLayout fixed(uint64_t shardElems, uint32_t nShards,
                                              CodecFormat codec) {
    return {shardElems * nShards, nShards, codec, shardElems};
  }

  // Of a mixed layout, the tables must be readable here.
  CINCH_HD constexpr ShardLayout ofChunk(uint32_t index) const {
    ShardLayout made = *this;
    made.chunk = index;
    if (!isMixed()) return made;
    made.mixedStride = 0;
    for (uint32_t shard = 0; shard < nShards; ++shard) {
      const uint64_t used = made.usedBytes(shard);
      made.mixedStride = used > made.mixedStride ? used : made.mixedStride;
    }
    return made;
  }

  CINCH_HD constexpr bool isMixed() const { return mixedShards != nullptr; }

  // Tiles are numbered through the whole bucket, in the order of the shards.
  CINCH_HD constexpr uint64_t tiles() const {
    return fixedShard ? nShards * tilesOf(fixedShard) : tilesOf(count);
  }
  CINCH_HD constexpr uint64_t firstTile(uint32_t shard) const { return partTile(firstPart(shard)); }
  CINCH_HD constexpr uint64_t shardTiles(uint32_t shard) const {
    return partTile(endPart(shard)) - firstTile(shard);
  }
  // First value of a shard, and how many it has (its last tile may be partial).
  CINCH_HD constexpr uint64_t firstElem(uint32_t shard) const { return partElem(firstPart(shard)); }
  CINCH_HD constexpr uint64_t shardElems(uint32_t shard) const {
    return partElem(endPart(shard)) - firstElem(shard);
  }

  // The pieces of a shard, in order. One codec for all makes one piece, as long as the largest
  // shard's. Where shards have chunks, of one chunk only; so is all that follows.
  CINCH_HD constexpr uint32_t nPieces(uint32_t shard) const {
    return isMixed() ? mixedShards[firstPart(shard)].nPieces : 1;
  }
  CINCH_HD constexpr Piece piece(uint32_t shard, uint32_t index) const {
    if (isMixed()) return mixedPieces[mixedShards[firstPart(shard)].firstPiece + index];
    return {0, shardTiles(0), kHeaderBytes, codec};
  }
  // Where the tiles of a shard end; zeros follow up to the stride.
  CINCH_HD constexpr uint64_t usedBytes(uint32_t shard) const {
    return isMixed() ? mixedShards[firstPart(shard)].usedBytes : strideBytes();
  }

  CINCH_HD constexpr uint64_t strideBytes() const {
    return isMixed() ? mixedStride : kHeaderBytes + shardTiles(0) * codec.tileBytes();
  }
  CINCH_HD constexpr uint64_t totalBytes() const { return strideBytes() * nShards; }
  // The same of all chunks before chunk `end`, one after the other.
  CINCH_HD constexpr uint64_t chunkBytes(uint32_t end) const {
    uint64_t sum = 0;
    for (uint32_t index = 0; index < end; ++index) sum += ofChunk(index).totalBytes();
    return sum;
  }

  CINCH_HD static constexpr uint64_t tilesOf(uint64_t elems) {
    return (elems + kTileElems - 1) / kTileElems;
  }

  // Parts are the chunks of all shards, in the order of the bucket.
  CINCH_HD constexpr uint32_t firstPart(uint32_t shard) const {
    return shard * nChunks + (chunk == kWholeShards ? 0 : chunk);
  }
  CINCH_HD constexpr uint32_t endPart(uint32_t shard) const {
    return chunk == kWholeShards ? (shard + 1) * nChunks : firstPart(shard) + 1;
  }
  CINCH_HD constexpr uint64_t partTile(uint32_t part) const;
  CINCH_HD constexpr uint64_t partElem(uint32_t part) const;
};

// Where the parts of a layout begin. Made once for many of them: it divides.
class Cuts {
 public:
  CINCH_HD constexpr explicit Cuts(const ShardLayout& layout)
      : layout_(layout),
        base_(layout.isMixed() ? 0 : layout.tiles() / nParts()),
        extra_(layout.isMixed() ? 0 : layout.tiles() - base_ * nParts()) {}

  // First tile and value of a part; of the one behind the last, where the bucket ends.
  CINCH_HD constexpr uint64_t tile(uint32_t part) const {
    if (layout_.isMixed())
      return part < nParts() ? layout_.mixedShards[part].firstTile : layout_.tiles();
    return part * base_ + (part < extra_ ? part : extra_);
  }
  CINCH_HD constexpr uint64_t elem(uint32_t part) const {
    if (layout_.fixedShard) return part * layout_.fixedShard;
    const uint64_t elem = tile(part) * kTileElems;
    return elem < layout_.count ? elem : layout_.count;
  }

 private:
  CINCH_HD constexpr uint32_t nParts() const { return layout_.nShards * layout_.nChunks; }

  const ShardLayout& layout_;
  uint64_t base_;   // tiles of a part
  uint64_t extra_;  // parts that have one more
};

CINCH_HD constexpr uint64_t ShardLayout::partTile(uint32_t part) const {
  return Cuts(*this).tile(part);
}
CINCH_HD constexpr uint64_t ShardLayout::partElem(uint32_t part) const {
  return Cuts(*this).elem(part);
}

}  // namespace cinch::wire
