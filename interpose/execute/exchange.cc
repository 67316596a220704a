#include "interpose/execute/exchange.h"

#include "interpose/real/nccl_try.h"

namespace cinch {
namespace {

Result<void> swapWithPeer(CommState& comm, const ShardBuffers& shards, int peer,
                          CUstream_st* stream) {
  const size_t nBytes = shards.messageBytes, offset = nBytes * static_cast<size_t>(peer);
  CINCH_TRY_NCCL(
      comm.real.Send(shards.outgoing + offset, nBytes, ncclUint8, peer, comm.comm, stream),
      "cannot send a shard");
  CINCH_TRY_NCCL(
      comm.real.Recv(shards.incoming + offset, nBytes, ncclUint8, peer, comm.comm, stream),
      "cannot receive a shard");
  return {};
}

Result<void> swapWithPeers(CommState& comm, const ShardBuffers& shards, CUstream_st* stream) {
  for (int peer = 0; peer < comm.nRanks; ++peer)
    if (peer != comm.rank) CINCH_TRY(swapWithPeer(comm, shards, peer, stream));
  return {};
}

}  // namespace

Result<void> exchangeShards(CommState& comm, const ShardBuffers& shards, CUstream_st* stream) {
  CINCH_TRY_NCCL(comm.real.GroupStart(), "cannot open a group");
  const Result<void> swapped = swapWithPeers(comm, shards, stream);
  // The group is closed whatever happened in it, else all later calls would be recorded for ever.
  const ncclResult_t ended = comm.real.GroupEnd();
  CINCH_TRY(swapped);
  CINCH_TRY_NCCL(ended, "cannot exchange shards");
  return {};
}

Result<void> gatherShards(CommState& comm, const ShardBuffers& shards, CUstream_st* stream) {
  const uint8_t* own = shards.outgoing + shards.messageBytes * static_cast<size_t>(comm.rank);
  CINCH_TRY_NCCL(
      comm.real.AllGather(own, shards.outgoing, shards.messageBytes, ncclUint8, comm.comm, stream),
      "cannot gather the shards");
  return {};
}

}  // namespace cinch
