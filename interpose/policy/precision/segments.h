// Cuts a bucket into segments, the units of adaptive precision. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interpose/policy/layers/bucket_layout.h"
#include "interpose/policy/precision/precision.h"

namespace cinch {

// The longest segment: 64 Ki values. Shorter ones save some 2 % more bytes at most
// (bench/adaptive).
inline constexpr uint64_t kSegmentTiles = 64;

// That of a bucket of `count` values: small buckets are cut finer, as they have layers, too.
constexpr uint64_t longestSegment(uint64_t count) {
  constexpr uint64_t kWanted = 64;
  const uint64_t nTiles = wire::ShardLayout::tilesOf(count);
  return nTiles < kWanted * kSegmentTiles ? nTiles / kWanted + 1 : kSegmentTiles;
}

// Segments of a bucket of `count` values, in order; together they have ShardLayout::tilesOf(count)
// tiles. Layers of one dimension or none, which are small and which training is sensitive to, are
// kept raw, with all of the tiles that they have a value in; neighbouring tiles of that kind are
// one segment. Any other tile belongs to the layer that has most of its values, to the first of
// equals; a layer that gets no tile goes with its neighbours. The tiles of a layer are a segment,
// or several where they are more than `maxTiles`.
//
// An empty layout, or one of another total: all is one layer. Where there would be more than
// kMaxSegments, `maxTiles` rises, and where that does not help, all is one layer.
std::vector<PrecisionSegment> segmentsOf(uint64_t count, const BucketLayout& layers,
                                         uint64_t maxTiles = kSegmentTiles);

// The same tiles, of which those of the numbers `raw`, ascending, are kept raw, each a segment.
std::vector<PrecisionSegment> withRawTiles(std::span<const PrecisionSegment> segments,
                                           std::span<const uint64_t> raw);

}  // namespace cinch
