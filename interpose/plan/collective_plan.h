// The plan of one compressed collective: who owns what, what is sent, how much memory it takes.
// Pure arithmetic on facts that are equal on every rank (and the rank's own number).
//
// AllReduce is a scatter-reduce-allgather: shard i of every rank goes to rank i, which sums it and
// hands the encoded sum to all: two quantisations whatever the number of ranks. ReduceScatter is
// its first half, AllGather its second.
//
// Two ranks are a *pair*: each sends the other its whole bucket, encoded, and both add up the same
// two codes. That is as many bytes in one message instead of two, and a smaller error: the sum is
// not coded again. Its layout has one shard, which is nobody's own.
//
// A large AllReduce goes chunk by chunk, so that the codec works on one while another is on the
// wire (HiPress, SOSP '21, overlaps the same five primitives): each chunk is a bucket of its own to
// launches and messages, of the values in between.
//
// Where the ranks of a host sum up first (host_plan.h) a rank's plan is that of its lane: of its
// part of the bucket, among the lane's owners. A rank without a lane has an empty one.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <numeric>

#include "interpose/plan/host_plan.h"
#include "interpose/policy/signature.h"
#include "kernels/core/residual_layout.h"
#include "kernels/device_table.h"
#include "kernels/wire/mixed_layout.h"
#include "kernels/wire/wire_format.h"

namespace cinch {

// A chunk as launches and messages see it; the whole bucket where there is but one.
struct ChunkPlan {
  wire::ShardLayout layout;
  wire::ShardLayout launchLayout;  // the same, with tables that launches can read
  uint64_t bufferOffset;           // of its encoded shards, in the buffer of all chunks

  uint64_t messageBytes() const { return layout.strideBytes(); }
  // Where shard `i` starts in a buffer of all encoded shards of the chunk.
  uint64_t shardOffset(uint32_t i) const { return i * messageBytes(); }
  // The own shard as a bucket of its own, for encoding it alone; of a bucket in one chunk.
  wire::ShardLayout shardAlone(uint32_t shard) const {
    return wire::ShardLayout::fixed(layout.shardElems(shard), 1, layout.codec);
  }
};

// More would make the fill and the drain of the pipeline shorter by less than a chunk costs.
inline constexpr uint32_t kMaxChunks = 16;
// Into how many chunks to cut a bucket of `nShards` shards where the codec takes as long for
// `chunkValues` values as a chunk costs besides. Messages are equal, and padded to a tile: few
// tiles of a shard are not cut on.
uint32_t chunksOf(uint64_t count, uint32_t nShards, uint64_t chunkValues);

struct CollectivePlan {
  CallKind kind;
  wire::ShardLayout layout;
  wire::ShardLayout launchLayout;            // the same, with tables that launches can read
  std::array<uint64_t, kMaxChunks> strides;  // of the chunks
  ElementType type;
  uint32_t rank;
  uint32_t planId;  // equal on all ranks if and only if they computed the same plan
  float factor;     // what the sum is multiplied by: 1, or 1/ranks for an average
  std::shared_ptr<const HostPlan> hosts{};  // null: all ranks exchange with all
  bool isPair = false;

  bool exchanges() const { return kind != CallKind::allGather; }
  bool gathers() const { return kind != CallKind::reduceScatter && !isPair; }

  // Of the lane, where there are lanes.
  uint32_t nRanks() const { return isPair ? 2 : layout.nShards; }
  // Values of the whole bucket.
  uint64_t bucketElems() const { return hosts ? hosts->parts.count : layout.count; }
  // What stage 1 is given: the sums of hosts are not rounded.
  ElementType inputType() const { return hosts ? ElementType::fp32 : type; }
  bool isIdle() const { return hosts && !hosts->ownsLane(); }
  // The layout of the largest lane: the same on all ranks.
  wire::ShardLayout largestLayout() const {
    if (!hosts) return layout;
    return {hosts->parts.shardElems(0), layout.nShards, layout.codec, 0, nChunks()};
  }
  uint32_t nChunks() const { return layout.nChunks; }
  ChunkPlan chunk(uint32_t index) const;
  // Of all encoded shards, chunk by chunk; and of those before chunk `end`.
  uint64_t bufferBytes() const { return bufferBytes(nChunks()); }
  uint64_t bufferBytes(uint32_t end) const {
    return layout.nShards * std::accumulate(strides.begin(), strides.begin() + end, uint64_t{0});
  }
  // The residual of stage 1 covers the whole bucket, that of stage 2 the owned shard, if there is
  // one. Only AllReduce has them.
  bool hasResiduals() const { return kind == CallKind::allReduce; }
  uint64_t encodeResidualBytes(ResidualType type) const {
    return hasResiduals() ? core::residualBytes(type, layout) : 0;
  }
  uint64_t reduceResidualBytes(ResidualType type) const {
    return hasResiduals() && !isPair ? core::residualBytes(type, layout.shardElems(rank)) : 0;
  }
  // Where the owned shard begins in a residual of the whole bucket; and its part of a chunk, in a
  // residual of the owned shard.
  uint64_t residualOffset(ResidualType type) const {
    return isPair ? 0 : core::residualOffset(type, layout, rank);
  }
  uint64_t residualOffset(ResidualType type, const ChunkPlan& chunk) const {
    return core::residualOffset(type, chunk.layout, rank) - residualOffset(type);
  }
  // The owned part of a chunk in a buffer of all that stage 1 is given.
  uint64_t ownByteOffset(const ChunkPlan& chunk) const {
    return chunk.layout.firstElem(rank) * elementBytes(inputType());
  }
  // Bytes of the whole bucket before compression, and what this rank then sends; with lanes, to
  // other hosts.
  uint64_t inputBytes() const { return bucketElems() * elementBytes(type); }
  uint64_t wireBytes() const {
    if (isIdle()) return 0;
    const uint64_t nPeers = isPair ? 1 : layout.nShards - 1;
    return (exchanges() + gathers()) * nPeers * (bufferBytes() / layout.nShards);
  }
  // What a ring sends of the bucket as it is; with lanes, this rank's share of what leaves its
  // host.
  uint64_t uncompressedWireBytes() const {
    const uint64_t n = hosts ? hosts->nRanks : nRanks();
    const uint64_t nSharing = hosts ? hosts->local.size() : 1;
    const uint64_t nStages = kind == CallKind::allReduce ? 2 : 1;
    return nStages * (n - 1) * (inputBytes() / n) / nSharing;
  }
  // Of the encoded bucket; 0 where this rank has none of it.
  double bitsPerValue() const {
    if (isIdle()) return 0;
    return 8.0 * static_cast<double>(bufferBytes()) / static_cast<double>(layout.count);
  }
};

// How an AllReduce is cut.
struct Cut {
  uint32_t nChunks = 1;
  bool mayPair = false;  // two ranks are a pair
};

// `signature` is one that decide() compresses; its count is NCCL's: values of the bucket for
// AllReduce, of one rank's shard for the others. Only AllReduce is cut.
CollectivePlan planCollective(const Signature& signature, ElementType type, wire::CodecFormat codec,
                              uint32_t rank, uint32_t nRanks, Cut cut = {});

// An AllReduce whose hosts sum up first.
CollectivePlan planLane(const Signature& signature, ElementType type, wire::CodecFormat codec,
                        std::shared_ptr<const HostPlan> hosts, Cut cut = {});

// The same collective with a codec for each run of tiles. `mixed` is the layout of its bucket and
// outlives the plan; `tables` is where launches find its tables.
CollectivePlan withPrecision(const CollectivePlan& plan, const wire::MixedLayout& mixed,
                             const void* tables, uint32_t planId);

}  // namespace cinch
