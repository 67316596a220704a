// Tiles are what the host backend codes and decodes at a time: few enough values to stay in the
// first-level cache, enough to make up for a call.
#pragma once

#include <span>

#include "kernels/core/error_sums.h"
#include "kernels/core/feedback.h"
#include "kernels/core/random.h"

namespace cinch::host {

using wire::kTileElems;

// What a tile is rotated and dithered with.
struct TilePlace {
  uint32_t firstOctet;  // counted through the shard
  uint32_t rotationKey;
};

// A tile to code. Arrays are kTileElems long, also where fewer values exist.
struct TileCoding {
  const float* values;
  uint32_t nValues;  // at least one
  TilePlace place;
  core::FeedbackRule feedback;
  float* residual;                // of the values, updated; null: no feedback
  const core::DitherKey* dither;  // null: round to nearest
  core::ErrorSums* errors;        // null: not measured
  uint8_t* output;                // tileBytes() of the codec, all of which are written
};

// A tile to decode: kTileElems values, however many exist.
struct TileDecoding {
  const uint8_t* input;
  TilePlace place;
  float* values;
};

// Where the own part of the next tile lies, which may be prefetched: elements, or codes, of which a
// value takes so many bytes at most.
struct OwnAhead {
  const uint8_t* bytes;
  uint32_t perValue;
};

// The parts of a tile that are to be added, in rank order: encoded, but for the own one.
struct TileSumming {
  const uint8_t* firstPart;  // rank 0's
  uint64_t strideBytes;      // from one rank's to the next
  uint32_t nRanks;
  uint32_t ownRank;
  const float* ownValues;
  OwnAhead nextOwn;
  TilePlace place;
  float* sum;

  bool isOwn(uint32_t rank) const { return rank == ownRank; }
  const uint8_t* part(uint32_t rank) const { return firstPart + rank * strideBytes; }
};

// One codec, compiled for one instruction set.
struct TileCodec {
  uint8_t id;
  void (*encode)(const TileCoding& coding);
  void (*decode)(const TileDecoding& decoding);
  void (*sum)(const TileSumming& summing);
};

// One compilation of all codecs.
using TileCodecs = std::span<const TileCodec>;

// Null where there is none: nobody plans with a codec that is not in the registry.
inline const TileCodec* findTileCodec(TileCodecs codecs, uint8_t id) {
  for (const TileCodec& codec : codecs)
    if (codec.id == id) return &codec;
  return nullptr;
}

}  // namespace cinch::host
