// Which flow takes the next chunk: the one that will have it there no later than the others would.
// So a slow flow gets what it can carry and holds nobody up, and a sick one gets nothing. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "net_plugin/socket/rate.h"

namespace cinch::net {

// One flow as the schedule sees it.
struct FlowView {
  double bytesPerSecond = 0;      // 0: not known, so it may be the fastest
  uint64_t queued = 0;            // bytes on their way
  bool isSick = false;            // stalled, or dead
  double seenBytesPerSecond = 0;  // lately; it may be able to do more
};

// More in one call to the kernel is not faster.
inline constexpr uint64_t kMostAtOnce = 512 << 10;

// True where flow `self` of `flows` should take a chunk of `chunk` bytes out of the `backlog` (it
// included) that no flow has yet.
bool takesChunk(std::span<const FlowView> flows, size_t self, uint64_t chunk, uint64_t backlog);

// How many bytes of the `backlog` flow `self` may take at one go, for one call to the kernel: an
// equal share, so that all flows end at about the same time (guided self-scheduling,
// Polychronopoulos and Kuck 1987), and no more than it gets through in a moment. 0: one chunk is
// enough.
uint64_t bytesAtOnce(std::span<const FlowView> flows, size_t self, uint64_t backlog);

// The flow whose bytes on their way are so late that flow `self`, which has nothing else to do,
// should send `chunk` bytes of them again; -1 where none is.
int latestFlow(std::span<const FlowView> flows, size_t self, uint64_t chunk);

}  // namespace cinch::net
