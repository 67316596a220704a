// What one thread does in a tally launch: each warp sums up a tile at a time. A lane's four octets
// are those of core/tally.h, whose rows are four neighbouring lanes.
#pragma once

#include "kernels/core/tally.h"
#include "kernels/cuda/agent/tile_elements.cuh"
#include "kernels/cuda/agent/tile_summary.cuh"

namespace cinch::cuda {

template <class Elements, bool hasOthers>
class TallyAgent {
 public:
  __device__ explicit TallyAgent(const TallyLaunch& launch)
      : launch_(launch),
        values_(launch.type, launch.values, 0),
        others_(launch.type, launch.others, 0) {}

  __device__ __forceinline__ void run() {
    for (TileWalk walk(wire::ShardLayout::tilesOf(launch_.count)); !walk.atEnd(); walk.advance()) {
      const TileTally tally = tallyOf(walk.tile, extentOf(walk.tile));
      if (laneOfWarp() == 0) launch_.tallies[walk.tile] = tally;
    }
  }

 private:
  using Range = typename SummaryOnDevice<core::ValueRange>::Type;

  __device__ TileExtent extentOf(uint32_t tile) const {
    const uint64_t left = launch_.count - uint64_t{tile} * kTileElems;
    return {left < kTileElems ? static_cast<uint32_t>(left) : kTileElems};
  }

  __device__ TileTally tallyOf(uint32_t tile, TileExtent extent) const {
    const TileValues values = values_.valuesOf(values_.load(tile, extent), launch_.factor);
    TileValues others = {};
    if constexpr (hasOthers) others = others_.valuesOf(others_.load(tile, extent), {});
    if (extent.isWhole()) return tallyOf<false>(values, others, extent);
    markCold();
    return tallyOf<true>(values, others, extent);
  }

  template <bool isShort>
  __device__ static TileTally tallyOf(TileValues values, TileValues others, TileExtent extent) {
    Range range;
    forEachValue([&](uint32_t slot, uint32_t i) {
      if (!isShort || i < extent.ofSlot(slot))
        range = range.mergedWith(Range::of(values.at[slot][i]));
      else
        values.at[slot][i] = others.at[slot][i] = 0.0f;
    });
    TileTally tally = {};
    tally.power = sumOfProducts(values, values);
    tally.squaredRanges = squaredRanges(range);
    if constexpr (hasOthers) {
      tally.otherPower = sumOfProducts(others, others);
      tally.product = sumOfProducts(values, others);
      forEachValue([&](uint32_t slot, uint32_t i) { values.at[slot][i] -= others.at[slot][i]; });
      tally.error = sumOfProducts(values, values);
    }
    return core::canonical(tally);
  }

  __device__ static float sumOfProducts(const TileValues& a, const TileValues& b) {
    core::LaneSum lane;
#pragma unroll
    for (uint32_t slot = 0; slot < kSlots; ++slot) lane.addProducts(a.at[slot], b.at[slot]);
    const float row = overLanes(overLanes(lane.total(), 2), 1);
    return overRows(row);
  }

  __device__ static float squaredRanges(Range range) {
    range = range.mergedWith(fromLane(range, 2));
    range = range.mergedWith(fromLane(range, 1));
    return overRows(core::squaredWidth(range.result()));
  }

  __device__ static float overRows(float sum) {
    return overLanes(overLanes(overLanes(sum, 16), 8), 4);
  }
  __device__ static float overLanes(float sum, uint32_t distance) {
    return sum + __shfl_xor_sync(kAllLanes, sum, distance);
  }

  const TallyLaunch& launch_;
  Elements values_;
  Elements others_;
};

}  // namespace cinch::cuda
