// Makes the tables of a mixed layout: a bucket whose segments have codecs of their own, cut into
// shards, and these into chunks, of nearly equal *encoded* sizes. Pure; every rank that computes it
// from the same segments gets the same tables.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/wire/wire_format.h"

namespace cinch::wire {

// A run of whole tiles of a bucket that share a codec; only the bucket's last tile may be partial.
struct Segment {
  uint64_t nTiles;
  CodecFormat codec;
};

class MixedLayout {
 public:
  // `segments` have at least one tile each, and as many in all as `count` values take.
  MixedLayout(uint64_t count, uint32_t nShards, std::span<const Segment> segments,
              uint32_t nChunks = 1)
      : layout_{.count = count, .nShards = nShards, .codec = {}, .nChunks = nChunks} {
    for (const Segment& segment : segments) layout_.mixedCodecs |= codecBit(segment.codec);
    ShardCutter cutter(*this, segments);
    for (uint32_t part = 0; part < nShards * nChunks; ++part) cutter.appendPart(part);
    for (const MixedShard& shard : shards_)
      layout_.mixedStride = std::max(layout_.mixedStride, shard.usedBytes);
  }

  // For host code, while this object lives and is not moved.
  ShardLayout layout() const { return layoutAt(shards_.data(), pieces_.data()); }

  // The tables as one run of bytes, aligned to 8, to be copied to where a launch can read them.
  size_t tableBytes() const {
    return shards_.size() * sizeof(MixedShard) + pieces_.size() * sizeof(Piece);
  }
  void copyTables(void* to) const {
    std::memcpy(to, shards_.data(), shards_.size() * sizeof(MixedShard));
    // A bucket of no values has no pieces.
    if (pieces_.empty()) return;
    std::memcpy(static_cast<MixedShard*>(to) + shards_.size(), pieces_.data(),
                pieces_.size() * sizeof(Piece));
  }
  // For launches that find the tables at `tables`, an address of the device.
  ShardLayout layoutAt(const void* tables) const {
    const auto* shards = static_cast<const MixedShard*>(tables);
    return layoutAt(shards, reinterpret_cast<const Piece*>(shards + shards_.size()));
  }

 private:
  // Walks the segments, shard by shard.
  class ShardCutter {
   public:
    ShardCutter(MixedLayout& made, std::span<const Segment> segments)
        : made_(made), segments_(segments) {
      for (const Segment& segment : segments) total_ += segment.nTiles * segment.codec.tileBytes();
    }

    // Appends the tiles up to the first that begins at or past the part's even share.
    void appendPart(uint32_t part) {
      made_.shards_.push_back({tile_, static_cast<uint32_t>(made_.pieces_.size()), 0, 0});
      const uint64_t target = shareBefore(part + 1), firstByte = byte_, firstTile = tile_;
      while (segment_ < segments_.size() && byte_ < target) {
        const Segment& segment = segments_[segment_];
        const uint64_t tileBytes = segment.codec.tileBytes();
        const uint64_t wanted = (target - byte_ + tileBytes - 1) / tileBytes;
        const uint64_t nTiles = std::min(wanted, segment.nTiles - taken_);
        made_.pieces_.push_back(
            {tile_ - firstTile, nTiles, kHeaderBytes + byte_ - firstByte, segment.codec});
        advance(nTiles, tileBytes);
      }
      MixedShard& made = made_.shards_.back();
      made.nPieces = static_cast<uint32_t>(made_.pieces_.size()) - made.firstPiece;
      made.usedBytes = kHeaderBytes + byte_ - firstByte;
    }

   private:
    uint64_t shareBefore(uint64_t part) const {
      const uint64_t n = uint64_t{made_.layout_.nShards} * made_.layout_.nChunks;
      return total_ / n * part + total_ % n * part / n;
    }

    void advance(uint64_t nTiles, uint64_t tileBytes) {
      tile_ += nTiles;
      byte_ += nTiles * tileBytes;
      taken_ += nTiles;
      if (taken_ < segments_[segment_].nTiles) return;
      ++segment_;
      taken_ = 0;
    }

    MixedLayout& made_;
    std::span<const Segment> segments_;
    uint64_t total_ = 0;
    size_t segment_ = 0;
    uint64_t taken_ = 0;  // tiles of the current segment
    uint64_t tile_ = 0;
    uint64_t byte_ = 0;  // of the encoded bucket, headers not counted
  };

  ShardLayout layoutAt(const MixedShard* shards, const Piece* pieces) const {
    ShardLayout layout = layout_;
    layout.mixedShards = shards;
    layout.mixedPieces = pieces;
    return layout;
  }

  ShardLayout layout_;
  std::vector<MixedShard> shards_;
  std::vector<Piece> pieces_;
};

}  // namespace cinch::wire
