// How an AllReduce is summed inside the hosts before it crosses the network. Pure; but for the
// rank's own place, equal on all ranks.
//
// The bucket is cut into parts, one for each *lane*. A lane has an owner on every host: the owners
// of lane 0 are the first ranks of the hosts, those of lane 1 the second ones. Inside a host all
// send part i, as it is, to the owner of lane i, which sums it up. The owners of a lane reduce its
// part among themselves, compressed, beside the other lanes. Then each owner hands its part to the
// ranks of its host. So a value crosses the network once per host, not once per rank.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/device_table.h"
#include "kernels/wire/wire_format.h"

namespace cinch {

// The ranks of each host, in their order; the hosts in the order of their first ranks.
using Hosts = std::vector<std::vector<int>>;

// Of the ranks' host ids, as the agreement's verdict has them.
Hosts hostsOf(std::span<const uint64_t> hostIds);

// Several hosts, of which one at least has several ranks; but none so many more than another that
// few lanes would take the parts of many ranks, in memory and over few of its links.
bool mayHaveLanes(const Hosts& hosts);

struct HostPlan {
  wire::ShardLayout parts;  // part i is lane i's; each begins at a tile, and has one at least
  ElementType type;
  uint32_t nRanks;
  uint32_t nHosts;
  uint32_t mostLocal;  // ranks of the host that has most
  uint32_t host;       // this rank's
  uint32_t index;      // this rank's among those of its host; it owns that lane, if there is one
  std::vector<int> local;   // ranks of this host, itself among them
  std::vector<int> owners;  // of this rank's lane, by host; none where it owns no lane

  uint32_t nLanes() const { return parts.nShards; }
  bool ownsLane() const { return index < nLanes(); }
  uint64_t ownElems() const { return ownsLane() ? parts.shardElems(index) : 0; }
  uint64_t partOffset(uint32_t lane) const { return parts.firstElem(lane) * elementBytes(type); }
  uint64_t partBytes(uint32_t lane) const { return parts.shardElems(lane) * elementBytes(type); }

  // Memory, for the largest part, so that all ranks need the same. In the workspace's outgoing
  // buffer the sum in fp32 lies before the codes; in the incoming one, parts that far apart.
  uint64_t sumBytes() const { return aligned(parts.shardElems(0) * sizeof(float)); }
  uint64_t partStride() const { return aligned(partBytes(0)); }
  uint64_t roomBytes(uint64_t codeBytes) const {
    return std::max(sumBytes() + codeBytes, (mostLocal - 1) * partStride());
  }

  static constexpr uint64_t aligned(uint64_t nBytes) {
    return (nBytes + wire::kAlignment - 1) / wire::kAlignment * wire::kAlignment;
  }
};

// There are as many lanes as the host with fewest ranks has, and no more than tiles. A rank beyond
// them owns none.
HostPlan planHosts(const Hosts& hosts, int rank, uint64_t count, ElementType type);

}  // namespace cinch
