#include "interpose/policy/precision/segments.h"

#include <algorithm>
#include <utility>

namespace cinch {
namespace {

using wire::kTileElems;
using Segments = std::vector<PrecisionSegment>;

// Gives each tile to a layer, in order, and collects the tiles of each.
class TileOwners {
 public:
  void add(uint64_t nValues, bool keptRaw) {
    if (!keptRaw || !current_.keptRaw) current_ = {current_.layer + 1, keptRaw, 0};
    if (filled_ > 0) nValues -= addToOpenTile(nValues);
    if (nValues >= kTileElems) append(current_, nValues / kTileElems);
    if (nValues % kTileElems > 0) addToOpenTile(nValues % kTileElems);
  }

  Segments finish() && {
    if (filled_ > 0) append(owner_, 1);
    return std::move(runs_);
  }

 private:
  struct Share {
    uint64_t layer;  // from 1
    bool keptRaw;
    uint64_t nValues;  // of the open tile
  };

  // Returns how many values fit into the tile that is not full yet.
  uint64_t addToOpenTile(uint64_t nValues) {
    const uint64_t n = std::min(nValues, kTileElems - filled_);
    current_.nValues += n;
    const bool hasMore = current_.nValues > owner_.nValues;
    if (current_.keptRaw || (!owner_.keptRaw && hasMore)) owner_ = current_;
    filled_ += n;
    if (filled_ == kTileElems) closeTile();
    return n;
  }

  void closeTile() {
    append(owner_, 1);
    owner_ = {};
    current_.nValues = 0;
    filled_ = 0;
  }

  void append(const Share& owner, uint64_t nTiles) {
    const bool goesOn =
        owner.layer == lastLayer_ || (owner.keptRaw && !runs_.empty() && runs_.back().keptRaw);
    if (!goesOn) runs_.push_back({0, owner.keptRaw});
    runs_.back().nTiles += nTiles;
    lastLayer_ = owner.layer;
  }

  Segments runs_;
  uint64_t lastLayer_ = 0;  // of the last run
  Share current_{};
  Share owner_{};  // the largest share
  uint64_t filled_ = 0;
};

Segments runsOf(uint64_t count, const BucketLayout& layers) {
  const bool isKnown = countOf(layers) == count;
  TileOwners owners;
  if (isKnown)
    for (const Layer& layer : layers) owners.add(layer.count, layer.dims <= 1);
  Segments runs = std::move(owners).finish();
  if (isKnown && runs.size() <= kMaxSegments) return runs;
  return {{wire::ShardLayout::tilesOf(count), false}};
}

uint64_t piecesOf(const PrecisionSegment& run, uint64_t maxTiles) {
  return run.keptRaw ? 1 : (run.nTiles + maxTiles - 1) / maxTiles;
}

// The least length, of `maxTiles` and its doubles, that makes few enough segments.
uint64_t lengthFor(const Segments& runs, uint64_t maxTiles) {
  for (;; maxTiles *= 2) {
    uint64_t n = 0;
    for (const PrecisionSegment& run : runs) n += piecesOf(run, maxTiles);
    if (n <= kMaxSegments) return maxTiles;
  }
}

}  // namespace

std::vector<PrecisionSegment> segmentsOf(uint64_t count, const BucketLayout& layers,
                                         uint64_t maxTiles) {
  const Segments runs = runsOf(count, layers);
  const uint64_t length = lengthFor(runs, maxTiles);
  Segments segments;
  for (const PrecisionSegment& run : runs) {
    const uint64_t longest = run.keptRaw ? run.nTiles : length;
    for (uint64_t left = run.nTiles; left > 0; left -= segments.back().nTiles)
      segments.push_back({std::min(left, longest), run.keptRaw});
  }
  return segments;
}

std::vector<PrecisionSegment> withRawTiles(std::span<const PrecisionSegment> segments,
                                           std::span<const uint64_t> raw) {
  Segments cut;
  uint64_t begin = 0;
  for (const PrecisionSegment& segment : segments) {
    const uint64_t end = begin + segment.nTiles;
    for (; !raw.empty() && raw[0] < end; raw = raw.subspan(1)) {
      if (raw[0] > begin) cut.push_back({raw[0] - begin, segment.keptRaw});
      cut.push_back({1, true});
      begin = raw[0] + 1;
    }
    if (begin < end) cut.push_back({end - begin, segment.keptRaw});
    begin = end;
  }
  return cut;
}

}  // namespace cinch
