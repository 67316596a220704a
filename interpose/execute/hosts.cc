#include "interpose/execute/hosts.h"

#include "interpose/real/nccl_try.h"

namespace cinch {
namespace {

Result<void> send(const BatchItem& item, const void* from, uint64_t nBytes, int peer) {
  CINCH_TRY_NCCL(
      item.comm->real.Send(from, nBytes, ncclUint8, peer, item.comm->comm, item.call.stream),
      "cannot send a part");
  return {};
}

Result<void> receive(const BatchItem& item, void* to, uint64_t nBytes, int peer) {
  CINCH_TRY_NCCL(
      item.comm->real.Recv(to, nBytes, ncclUint8, peer, item.comm->comm, item.call.stream),
      "cannot receive a part");
  return {};
}

uint8_t* incoming(const BatchItem& item) {
  return item.comm->workspace.incoming() + item.use.offset;
}

// Part `lane` of what the program gave.
const void* givenPart(const BatchItem& item, uint32_t lane) {
  if (item.connectOnly) return laneSum(item);
  return static_cast<const uint8_t*>(item.call.send) + item.plan.hosts->partOffset(lane);
}

// Calls visit(index, rank) for the other ranks of the host; ends at the first error.
template <class Visit>
Result<void> forEachNeighbour(const HostPlan& hosts, const Visit& visit) {
  for (uint32_t i = 0; i < hosts.local.size(); ++i)
    if (i != hosts.index) CINCH_TRY(visit(i, hosts.local[i]));
  return {};
}

// Calls visit(host, rank) for the other owners of the lane; none where this rank owns no lane.
template <class Visit>
Result<void> forEachOwner(const HostPlan& hosts, const Visit& visit) {
  for (uint32_t i = 0; i < hosts.owners.size(); ++i)
    if (i != hosts.host) CINCH_TRY(visit(i, hosts.owners[i]));
  return {};
}

}  // namespace

bool hasLanes(const BatchItem& item) {
  return item.plan.hosts != nullptr;
}

float* laneSum(const BatchItem& item) {
  return reinterpret_cast<float*>(item.comm->workspace.outgoing() + item.use.offset);
}

uint8_t* resultPart(const BatchItem& item, uint32_t lane) {
  return static_cast<uint8_t*>(item.call.recv) + item.plan.hosts->partOffset(lane);
}

Result<void> scatterParts(const BatchItem& item) {
  CINCH_TRY(checkAlive(*item.comm));
  const HostPlan& hosts = *item.plan.hosts;
  uint8_t* to = incoming(item);
  return forEachNeighbour(hosts, [&](uint32_t index, int rank) -> Result<void> {
    if (index < hosts.nLanes())
      CINCH_TRY(send(item, givenPart(item, index), hosts.partBytes(index), rank));
    if (!hosts.ownsLane()) return {};
    CINCH_TRY(receive(item, to, hosts.partBytes(hosts.index), rank));
    to += hosts.partStride();
    return {};
  });
}

Result<void> exchangeLane(const BatchItem& item, const ShardBuffers& shards) {
  CINCH_TRY(checkAlive(*item.comm));
  return forEachOwner(*item.plan.hosts, [&](uint32_t host, int rank) -> Result<void> {
    const size_t offset = shards.offsetOf(host);
    CINCH_TRY(send(item, shards.outgoing + offset, shards.messageBytes, rank));
    return receive(item, shards.incoming + offset, shards.messageBytes, rank);
  });
}

Result<void> gatherLane(const BatchItem& item, const ShardBuffers& shards) {
  CINCH_TRY(checkAlive(*item.comm));
  const uint8_t* const own = shards.outgoing + item.plan.rank * shards.messageBytes;
  return forEachOwner(*item.plan.hosts, [&](uint32_t host, int rank) -> Result<void> {
    CINCH_TRY(send(item, own, shards.messageBytes, rank));
    return receive(item, shards.outgoing + host * shards.messageBytes, shards.messageBytes, rank);
  });
}

Result<void> spreadParts(const BatchItem& item) {
  CINCH_TRY(checkAlive(*item.comm));
  const HostPlan& hosts = *item.plan.hosts;
  const void* const own =
      item.connectOnly ? givenPart(item, hosts.index) : resultPart(item, hosts.index);
  uint8_t* unused = incoming(item);
  return forEachNeighbour(hosts, [&](uint32_t index, int rank) -> Result<void> {
    if (hosts.ownsLane()) CINCH_TRY(send(item, own, hosts.partBytes(hosts.index), rank));
    if (index >= hosts.nLanes()) return {};
    uint8_t* const to = item.connectOnly ? unused : resultPart(item, index);
    unused += hosts.partStride();
    return receive(item, to, hosts.partBytes(index), rank);
  });
}

SumLaunch sumOf(const BatchItem& item) {
  const HostPlan& hosts = *item.plan.hosts;
  return {.own = givenPart(item, hosts.index),
          .others = incoming(item),
          .strideBytes = hosts.partStride(),
          .nParts = static_cast<uint32_t>(hosts.local.size()),
          .ownPosition = hosts.index,
          .count = hosts.ownElems(),
          .type = hosts.type,
          .sum = laneSum(item)};
}

}  // namespace cinch
