// The two messages of compressed calls, through the user's own communicator.
#pragma once

#include "interpose/comm/comm_state.h"

namespace cinch {

// Equal messages, one per rank, that lie one after another in device memory; of a pair, the one
// that each of the two sends.
struct ShardBuffers {
  uint8_t* outgoing;
  uint8_t* incoming;
  size_t messageBytes;
  bool isPair = false;

  size_t offsetOf(size_t rank) const { return isPair ? 0 : rank * messageBytes; }
};

// An error where the communicator was aborted: then NCCL is not called for it any more.
Result<void> checkAlive(const CommState& comm);

// Both record into the group that is open. A communicator that was aborted is left alone.

// Point-to-point calls: message i of `outgoing` to rank i, and what the peers sent to
// this rank into `incoming`, in rank order. The own message stays where it is.
Result<void> exchangeShards(CommState& comm, const ShardBuffers& shards, CUstream_st* stream);

// In place: every rank's own message of `outgoing` into every rank's `outgoing`. By NCCL's
// AllGather, or, where the communicator's ranks are many, by point-to-point calls, too.
Result<void> gatherShards(CommState& comm, const ShardBuffers& shards, CUstream_st* stream);

}  // namespace cinch
