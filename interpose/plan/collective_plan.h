// The plan of one compressed collective: who owns what, what is sent, how much memory it takes.
// Pure arithmetic on facts that are equal on every rank (and the rank's own number).
//
// AllReduce is a scatter-reduce-allgather: shard i of every rank goes to rank i, which sums it and
// hands the encoded sum to all: two quantisations whatever the number of ranks. ReduceScatter is
// its first half, AllGather its second.
#pragma once

#include <cstdint>

#include "interpose/policy/signature.h"
#include "kernels/core/residual_layout.h"
#include "kernels/device_table.h"
#include "kernels/wire/mixed_layout.h"
#include "kernels/wire/wire_format.h"

namespace cinch {

struct CollectivePlan {
  CallKind kind;
  wire::ShardLayout layout;
  wire::ShardLayout launchLayout;  // the same, with tables that launches can read
  ElementType type;
  uint32_t rank;
  uint32_t planId;  // equal on all ranks if and only if they computed the same plan
  float factor;     // what the sum is multiplied by: 1, or 1/ranks for an average

  bool exchanges() const { return kind != CallKind::allGather; }
  bool gathers() const { return kind != CallKind::reduceScatter; }

  uint32_t nRanks() const { return layout.nShards; }
  uint64_t messageBytes() const { return layout.strideBytes(); }
  // Where shard `i` starts in a buffer of all encoded shards, of bufferBytes().
  uint64_t shardOffset(uint32_t i) const { return i * messageBytes(); }
  uint64_t bufferBytes() const { return layout.totalBytes(); }
  // This rank's own shard as a bucket of its own, for encoding it alone.
  wire::ShardLayout ownShard() const {
    return wire::ShardLayout::fixed(layout.shardElems(rank), 1, layout.codec);
  }
  // The residual of stage 1 covers the whole bucket, that of stage 2 the owned shard. Only
  // AllReduce has them.
  bool hasResiduals() const { return kind == CallKind::allReduce; }
  uint64_t encodeResidualBytes(ResidualType type) const {
    return hasResiduals() ? core::residualBytes(type, layout) : 0;
  }
  uint64_t reduceResidualBytes(ResidualType type) const {
    return hasResiduals() ? core::residualBytes(type, layout.shardElems(rank)) : 0;
  }
  // Where the owned shard begins in a residual of the whole bucket.
  uint64_t residualOffset(ResidualType type) const {
    return core::residualOffset(type, layout, rank);
  }
  // The owned part of a buffer of all user values.
  uint64_t ownByteOffset() const { return layout.firstElem(rank) * elementBytes(type); }
  // Bytes of the whole bucket before compression, and what this rank then sends.
  uint64_t inputBytes() const { return layout.count * elementBytes(type); }
  uint64_t wireBytes() const { return (exchanges() + gathers()) * (nRanks() - 1) * messageBytes(); }
  // What a ring sends of the bucket as it is.
  uint64_t uncompressedWireBytes() const {
    return (exchanges() + gathers()) * (nRanks() - 1) * (inputBytes() / nRanks());
  }
  // Of the encoded bucket.
  double bitsPerValue() const {
    return 8.0 * static_cast<double>(bufferBytes()) / static_cast<double>(layout.count);
  }
};

// `signature` is one that decide() compresses; its count is NCCL's: values of the bucket for
// AllReduce, of one rank's shard for the others.
CollectivePlan planCollective(const Signature& signature, ElementType type, wire::CodecFormat codec,
                              uint32_t rank, uint32_t nRanks);

// The same collective with a codec for each run of tiles. `mixed` is the layout of its bucket and
// outlives the plan; `tables` is where launches find its tables.
CollectivePlan withPrecision(const CollectivePlan& plan, const wire::MixedLayout& mixed,
                             const void* tables, uint32_t planId);

}  // namespace cinch
