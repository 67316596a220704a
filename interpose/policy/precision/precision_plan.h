// A choice of precision as the bytes that all ranks receive, and the one parser of them. Pure.
//
//   offset  bytes  integers little-endian
//   0       4      magic "CPPL"
//   4       4      version  1: the first; every other one is refused
//   8       4      id of the plan, which goes into the headers of encoded shards
//   12      4      n, runs
//   16      8      slot identity: whose plan it is
//   24      8      ordinal from which on it is in force
//   32      8 n    runs: id of the codec in the low byte, tiles above
//   32+8n   8      hash of all bytes before
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/result.h"
#include "interpose/policy/precision/precision.h"
#include "kernels/wire/mixed_layout.h"

namespace cinch {

struct PrecisionPlan {
  uint32_t id = 0;
  uint64_t slot = 0;
  uint64_t decidedAfter = 0;        // calls of the slot; tells its plans apart
  std::vector<wire::Segment> runs;  // what wire::MixedLayout takes; kMaxSegments at most
};

// The runs of a choice: neighbours that have the same codec become one.
std::vector<wire::Segment> runsOf(const PrecisionProblem& problem, const PrecisionChoice& choice);

// The part of `runs` that covers `nTiles` tiles from `firstTile` on.
std::vector<wire::Segment> cutRuns(std::span<const wire::Segment> runs, uint64_t firstTile,
                                   uint64_t nTiles);

std::vector<uint8_t> encodePlan(const PrecisionPlan& plan);

// How many tiles the bucket of a slot has; 0 where there is no such slot.
using TilesOfSlot = std::function<uint64_t(uint64_t slot)>;

// Refuses everything but what encodePlan() writes for a slot that is known, with codecs that are
// known and as many tiles as its bucket has.
Result<PrecisionPlan> decodePlan(std::span<const uint8_t> bytes, const TilesOfSlot& tilesOfSlot);

}  // namespace cinch
