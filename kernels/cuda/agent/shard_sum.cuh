// The sum of all ranks' parts of the owned shard: what both kinds of reduce begin with.
#pragma once

#include "kernels/cuda/agent/tile_writer.cuh"

namespace cinch::cuda {

// ofRanks: peers' codes and the own part, exact. ofTwoCodes: one peer's and the caller's own.
enum class Parts { ofRanks, ofTwoCodes };

template <class Elements, class Codecs, Parts parts = Parts::ofRanks>
class ShardSum {
 public:
  // All lanes of a warp make it together: every warp looks at every peer's header, and the first
  // one reports.
  __device__ ShardSum(const ReduceLaunch& launch, const ShardView& shard)
      : launch_(launch),
        strideBytes_(shard.strideBytes),
        codec_(launch.call, launch.shard),
        input_(launch.call.type, launch.ownInput, 0),
        residual_(ResidualPlace{ownResidual(launch, shard), launch.rule.residualType,
                                core::isPoisoned(*launch.call.state)}),
        accepted_(acceptPeers()) {}

  // The values of a tile: the parts in rank order, times the factor. NaN where a peer's header was
  // refused. Each tile once, in rising order: the own part's residual is used up.
  __device__ TileValues ofTile(uint32_t tile, TileExtent extent) {
    codec_.seek(tile);
    TileValues sum = filled(-0.0f);  // the number that changes no other when added
    if constexpr (parts == Parts::ofTwoCodes)
      addCodes(tile, extent, sum);
    else
      addRanks(tile, extent, sum);
    forEachValue([&](uint32_t slot, uint32_t i) { sum.at[slot][i] *= launch_.factor; });
    if (accepted_) return sum;
    markCold();
    return filled(kNan);
  }

 private:
  static constexpr bool kIsInt8 = Codecs::kIsFixed;
  using Residual = std::conditional_t<kIsInt8, Int8Residual, AnyResidual>;
  static constexpr uint32_t kPeersInFlight = Codecs::kIsFixed ? 2 : 1;

  __device__ __forceinline__ void addCodes(uint32_t tile, TileExtent extent,
                                           TileValues& sum) const {
#pragma unroll kPeersInFlight
    for (uint32_t part = 0; part < 2; ++part)
      add(codec_.decode(tile, extent, part == 0 ? launch_.peers : launch_.ownCodes), sum);
  }

  __device__ __forceinline__ void addRanks(uint32_t tile, TileExtent extent, TileValues& sum) {
    const TileValues own = ownPart(tile, extent);
    // One copy of the code for the peers before the own part and for those behind it.
#pragma unroll 1
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t begin = half == 0 ? 0 : launch_.shard + 1;
      const uint32_t end = half == 0 ? launch_.shard : launch_.call.layout.nShards;
      addPeers(tile, extent, begin, end, sum);
      if (half == 0) add(own, sum);
    }
  }

  __device__ static void* ownResidual(const ReduceLaunch& launch, const ShardView& shard) {
    if (!launch.ownResidual) return nullptr;
    return static_cast<uint8_t*>(launch.ownResidual) +
           residualOffset(kIsInt8 ? ResidualType::int8 : launch.rule.residualType, shard);
  }

  __device__ const uint8_t* peer(uint32_t rank) const {
    return launch_.peers + rank * strideBytes_;
  }

  __device__ bool acceptPeers() const {
    const CallContext& call = launch_.call;
    uint32_t faults = 0;
    const uint32_t nPeers = parts == Parts::ofTwoCodes ? 1 : call.layout.nShards;
    for (uint32_t rank = laneOfWarp(); rank < nPeers; rank += kWarpThreads)
      if (parts == Parts::ofTwoCodes || rank != launch_.shard)
        faults |= faultsOfShard(call, peer(rank));
    if (isFirstWarpOfRow()) reportFaults(call, faults);
    return !__any_sync(kAllLanes, faults != 0);
  }

  __device__ void addPeers(uint32_t tile, TileExtent extent, uint32_t begin, uint32_t end,
                           TileValues& sum) const {
#pragma unroll kPeersInFlight
    for (uint32_t rank = begin; rank < end; ++rank)
      add(codec_.decode(tile, extent, peer(rank)), sum);
  }

  __device__ static void add(const TileValues& part, TileValues& sum) {
    forEachValue([&](uint32_t slot, uint32_t i) { sum.at[slot][i] += part.at[slot][i]; });
  }

  // The caller's own part, exact: its residual is used up.
  __device__ TileValues ownPart(uint32_t tile, TileExtent extent) {
    TileValues own = input_.valuesOf(input_.load(tile, extent), launch_.inputFactor);
    if (!residual_.exists()) return own;
    if (!core::isPoisoned(*launch_.call.state)) add(residual_.load(tile, extent), own);
    residual_.clear(tile, extent);
    return own;
  }

  const ReduceLaunch& launch_;
  uint64_t strideBytes_;
  ShardCodec<Codecs> codec_;
  Elements input_;
  Residual residual_;
  bool accepted_;
};

}  // namespace cinch::cuda
