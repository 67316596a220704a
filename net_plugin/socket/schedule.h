// Which flow takes the next chunk: the one that will have it there no later than the others would.
// So a slow flow gets what it can carry and holds nobody up, and a sick one gets nothing. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "net_plugin/socket/rate.h"

namespace cinch::net {

// One flow as the schedule sees it.
struct FlowView {
  double bytesPerSecond = 0;  // 0: not known, so it may be the fastest
  uint64_t queued = 0;        // bytes on their way
  bool isSick = false;        // stalled, or dead
};

// True where flow `self` of `flows` should take a chunk of `chunk` bytes out of the `backlog` (it
// included) that no flow has yet.
bool takesChunk(std::span<const FlowView> flows, size_t self, uint64_t chunk, uint64_t backlog);

// The flow whose bytes on their way are so late that flow `self`, which has nothing else to do,
// should send `chunk` bytes of them again; -1 where none is.
int latestFlow(std::span<const FlowView> flows, size_t self, uint64_t chunk);

}  // namespace cinch::net
