// What encode and reduce share: codes tiles of values into a shard, with error feedback and, on
// measured calls, the statistics of what coding lost.
#pragma once

#include "kernels/core/call_state.h"
#include "kernels/core/feedback.h"
#include "kernels/cuda/agent/encoded_shard.cuh"
#include "kernels/cuda/agent/error_tally.cuh"
#include "kernels/cuda/agent/residual_tiles.cuh"
#include "kernels/cuda/agent/shard_codec.cuh"

namespace cinch::cuda {

// What a kernel can keep besides codes. Fixed at compile time: what is not kept takes no registers,
// and registers are what limits the loads in flight.
enum class Kept {
  codes,         // nothing else
  int8Residual,  // residuals of that form, where there are any, without decay
  anything       // whatever the rule says: residuals, dither, statistics
};

// Whether a kernel that keeps no more than residuals without decay does what a rule says.
inline bool isPlain(const CodingRule& rule) {
  return !rule.measure && rule.rounding == Rounding::nearest && rule.decay == 1.0f;
}

template <Kept kept>
struct ResidualOf {
  using Type = AnyResidual;
};
template <>
struct ResidualOf<Kept::int8Residual> {
  using Type = Int8Residual;
};

// A shard to be coded.
struct CodingTask {
  const CallContext& call;
  const CodingRule& rule;
  uint32_t shard;
  uint32_t stage;  // 0 or 1
  uint8_t* output;
  void* residual;  // of the shard, or null
};

template <class Codecs, Kept kept>
class TileWriter {
 public:
  __device__ explicit TileWriter(const CodingTask& task)
      : task_(task),
        codec_(task.call, task.shard),
        residual_(ResidualPlace{task.residual, task.rule.residualType,
                                core::isPoisoned(*task.call.state)}) {}

  // The residuals of a tile, on their way while its values come.
  __device__ TileValues loadResidual(uint32_t tile, TileExtent extent) const {
    if constexpr (kept == Kept::codes) return {};
    return residual_.load(tile, extent);
  }

  // Codes a tile. All lanes of a warp call it together, for tiles in rising order.
  __device__ __forceinline__ void write(uint32_t tile, TileExtent extent, const TileValues& values,
                                        const TileValues& residual) {
    codec_.seek(tile);
    if constexpr (kept == Kept::codes) {
      encode(tile, extent, values);
    } else {
      const TileValues decoded = encode(tile, extent, compensated(values, residual));
      if (residual_.exists()) keepRest(tile, extent, values, residual, decoded);
      if constexpr (kept == Kept::anything)
        if (task_.rule.measure) addStatistics(extent, compensated(values, residual), decoded);
    }
  }

  // Once, at the end, by every thread.
  __device__ void finish() const {
    if constexpr (kept == Kept::anything)
      if (task_.rule.measure) tally_.addTo(task_.call.state, static_cast<int>(task_.stage));
  }

 private:
  using Residual = typename ResidualOf<kept>::Type;
  using Rounder = std::conditional_t<kept == Kept::anything, AsToldByRule, ToNearest>;

  __device__ Rounder rounder() const {
    if constexpr (kept == Kept::anything) {
      const CallContext& call = task_.call;
      return {task_.rule.rounding == Rounding::stochastic,
              {task_.rule.seed, task_.shard, task_.stage, call.state->ordinal, call.slot}};
    } else {
      return {};
    }
  }

  __device__ core::FeedbackRule feedback() const {
    return {task_.rule.gain, kept == Kept::anything ? task_.rule.decay : 1.0f};
  }

  __device__ TileValues compensated(const TileValues& values, const TileValues& residual) const {
    if (!residual_.exists()) return values;
    TileValues sum;
    forEachValue([&](uint32_t slot, uint32_t i) {
      sum.at[slot][i] = feedback().compensate(values.at[slot][i], residual.at[slot][i]);
    });
    return sum;
  }

  __device__ __forceinline__ TileValues encode(uint32_t tile, TileExtent extent,
                                               const TileValues& values) const {
    constexpr bool kWantsDecoded = kept != Kept::codes;
    return codec_.template encode<kWantsDecoded>(tile, extent, values, rounder(), task_.output);
  }

  // A marked block decodes to NaN, of which the rule makes a residual of 0.
  __device__ void keepRest(uint32_t tile, TileExtent extent, const TileValues& values,
                           const TileValues& residual, const TileValues& decoded) {
    TileValues rest;
    forEachValue([&](uint32_t slot, uint32_t i) {
      rest.at[slot][i] =
          feedback().next(residual.at[slot][i], values.at[slot][i], decoded.at[slot][i]);
    });
    residual_.store(tile, extent, rest);
  }

  __device__ void addStatistics(TileExtent extent, const TileValues& coded,
                                const TileValues& decoded) {
    forEachValue([&](uint32_t slot, uint32_t i) {
      if (i < extent.ofSlot(slot)) tally_.add(coded.at[slot][i], decoded.at[slot][i]);
    });
  }

  CodingTask task_;
  ShardCodec<Codecs> codec_;
  Residual residual_;
  ErrorTally tally_;
};

}  // namespace cinch::cuda
