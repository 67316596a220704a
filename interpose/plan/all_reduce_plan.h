// The plan of one compressed AllReduce: who owns what, what is sent, how much memory it takes.
// Pure arithmetic on facts that are equal on every rank (and the rank's own number).
//
// Scatter-reduce-allgather: shard i of every rank goes to rank i, which sums it and hands the
// encoded sum to all. Two quantisations whatever the number of ranks.
#pragma once

#include <cstdint>

#include "kernels/device_table.h"
#include "kernels/wire/wire_format.h"

namespace cinch {

struct AllReducePlan {
  wire::ShardLayout layout;
  ElementType type;
  uint32_t rank;
  uint32_t planId;  // equal on all ranks if and only if they computed the same plan
  float factor;     // what the sum is multiplied by: 1, or 1/ranks for an average

  uint32_t nRanks() const { return layout.nShards; }
  uint64_t messageBytes() const { return layout.strideBytes(); }
  // Where shard `i` starts in a buffer of all encoded shards, of bufferBytes().
  uint64_t shardOffset(uint32_t i) const { return i * messageBytes(); }
  uint64_t bufferBytes() const { return layout.totalBytes(); }
  // Residuals are fp32: stage 1 covers the whole bucket, stage 2 the owned shard.
  uint64_t encodeResidualBytes() const { return layout.count * sizeof(float); }
  uint64_t reduceResidualBytes() const { return layout.shardElems(rank) * sizeof(float); }
  // The owned part of a buffer of user values.
  uint64_t ownByteOffset() const { return layout.firstElem(rank) * elementBytes(type); }
  // Bytes of a call before compression, and what this rank then sends (exchange and gather).
  uint64_t inputBytes() const { return layout.count * elementBytes(type); }
  uint64_t wireBytes() const { return 2 * (nRanks() - 1) * messageBytes(); }
};

AllReducePlan planAllReduce(uint64_t count, ElementType type, wire::Codec codec, bool average,
                            uint32_t rank, uint32_t nRanks);

}  // namespace cinch
