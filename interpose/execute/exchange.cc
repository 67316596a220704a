#include "interpose/execute/exchange.h"

#include "interpose/real/nccl_try.h"

namespace cinch {
namespace {

struct ShardMessage {
  const uint8_t* sent;
  uint8_t* received;
  size_t nBytes;
};

Result<void> swapWithPeer(CommState& comm, const ShardMessage& message, int peer,
                          CUstream_st* stream) {
  CINCH_TRY_NCCL(comm.real.Send(message.sent, message.nBytes, ncclUint8, peer, comm.comm, stream),
                 "cannot send a shard");
  CINCH_TRY_NCCL(
      comm.real.Recv(message.received, message.nBytes, ncclUint8, peer, comm.comm, stream),
      "cannot receive a shard");
  return {};
}

// With messageOf(peer), in rank order.
template <class MessageOf>
Result<void> swapWithPeers(CommState& comm, CUstream_st* stream, const MessageOf& messageOf) {
  for (int peer = 0; peer < comm.nRanks; ++peer)
    if (peer != comm.rank)
      CINCH_TRY(swapWithPeer(comm, messageOf(static_cast<size_t>(peer)), peer, stream));
  return {};
}

}  // namespace

Result<void> checkAlive(const CommState& comm) {
  if (comm.isAbandoned()) return errorf(Status::remoteError, "the communicator was aborted");
  return {};
}

Result<void> exchangeShards(CommState& comm, const ShardBuffers& shards, CUstream_st* stream) {
  CINCH_TRY(checkAlive(comm));
  return swapWithPeers(comm, stream, [&](size_t peer) {
    const size_t offset = shards.offsetOf(peer);
    return ShardMessage{shards.outgoing + offset, shards.incoming + offset, shards.messageBytes};
  });
}

Result<void> gatherShards(CommState& comm, const ShardBuffers& shards, CUstream_st* stream) {
  CINCH_TRY(checkAlive(comm));
  const uint8_t* own = shards.outgoing + shards.messageBytes * static_cast<size_t>(comm.rank);
  if (comm.gathersDirectly())
    return swapWithPeers(comm, stream, [&](size_t peer) {
      return ShardMessage{own, shards.outgoing + shards.offsetOf(peer), shards.messageBytes};
    });
  CINCH_TRY_NCCL(
      comm.real.AllGather(own, shards.outgoing, shards.messageBytes, ncclUint8, comm.comm, stream),
      "cannot gather the shards");
  return {};
}

}  // namespace cinch
