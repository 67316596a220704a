#include "interpose/execute/exchange.h"

#include "interpose/real/nccl_try.h"

namespace cinch {
namespace {

Result<void> swapWithPeer(CommState& comm, const ShardBuffers& shards, int peer,
                          CUstream_st* stream) {
  const size_t nBytes = shards.messageBytes, offset = shards.offsetOf(static_cast<size_t>(peer));
  CINCH_TRY_NCCL(
      comm.real.Send(shards.outgoing + offset, nBytes, ncclUint8, peer, comm.comm, stream),
      "cannot send a shard");
  CINCH_TRY_NCCL(
      comm.real.Recv(shards.incoming + offset, nBytes, ncclUint8, peer, comm.comm, stream),
      "cannot receive a shard");
  return {};
}

}  // namespace

Result<void> checkAlive(const CommState& comm) {
  if (comm.isAbandoned()) return errorf(Status::remoteError, "the communicator was aborted");
  return {};
}

Result<void> exchangeShards(CommState& comm, const ShardBuffers& shards, CUstream_st* stream) {
  CINCH_TRY(checkAlive(comm));
  for (int peer = 0; peer < comm.nRanks; ++peer)
    if (peer != comm.rank) CINCH_TRY(swapWithPeer(comm, shards, peer, stream));
  return {};
}

Result<void> gatherShards(CommState& comm, const ShardBuffers& shards, CUstream_st* stream) {
  CINCH_TRY(checkAlive(comm));
  const uint8_t* own = shards.outgoing + shards.messageBytes * static_cast<size_t>(comm.rank);
  CINCH_TRY_NCCL(
      comm.real.AllGather(own, shards.outgoing, shards.messageBytes, ncclUint8, comm.comm, stream),
      "cannot gather the shards");
  return {};
}

}  // namespace cinch
