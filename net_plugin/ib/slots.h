// What two ends of a connection write into each other's memory, and where. Pure.
//
// The receiving side writes a ClearToSend for each buffer into a ring of the sending side; that one
// writes the data straight into the buffer, and then, for each part of it, an Arrival into a ring
// of the receiving side, with an immediate that says which. Both rings have a place for each buffer
// that may wait: kMaxRequests groups of kMaxGroup. Group k uses the places of group k -
// kMaxRequests again, which both sides are through with by then.
//
// The data of a part and its Arrival are two work requests of one queue: the completion of the
// second says that all of the first is there, even where the network reorders packets (adaptive
// routing), so that nothing depends on the order in which bytes land.
#pragma once

#include <atomic>
#include <bit>
#include <optional>

#include "net_plugin/ib/card.h"
#include "net_plugin/net.h"

namespace cinch::net::ib {

static_assert(std::endian::native == std::endian::little, "slots are written as they lie");

// A message goes over so many queues at most.
inline constexpr size_t kMaxParts = 8;
inline constexpr size_t kPlaces = kMaxRequests * kMaxGroup;

// A buffer that waits. 64 bytes: one cache line, which devices write whole.
struct ClearToSend {
  uint64_t address = 0;
  std::array<uint32_t, kMaxPorts> keys{};  // of the buffer, for each lane
  uint32_t capacity = 0;                   // bytes
  int32_t tag = 0;
  uint8_t groupSize = 0;  // buffers of the group, 1 to kMaxGroup
  uint8_t zero[27]{};
  uint32_t stamp = 0;  // last: see stampOf()
};
static_assert(sizeof(ClearToSend) == 64);

// A part of a message that has arrived.
struct Arrival {
  uint32_t group = 0;   // its low bits
  uint32_t nBytes = 0;  // of the whole message
  uint8_t nParts = 0;   // 1 to kMaxParts
  uint8_t zero[7]{};
};
static_assert(sizeof(Arrival) == 16);

// What says that a place holds the entry of this group: never 0, which fresh memory holds, and not
// what the place's last group had.
inline uint32_t stampOf(uint64_t group) {
  return static_cast<uint32_t>(group / kMaxRequests % 0xffffffff) + 1;
}

inline size_t placeOf(uint64_t group, size_t index) {
  return group % kMaxRequests * kMaxGroup + index;
}

// The immediate of an Arrival: 8 bits of place, 3 of the part, and as much of the group as is left.
inline uint32_t immediateOf(uint64_t group, size_t place, size_t part) {
  return static_cast<uint32_t>(place | part << 8 | group << 11);
}
inline size_t placeOfImmediate(uint32_t immediate) {
  return immediate & 0xff;
}
inline size_t partOfImmediate(uint32_t immediate) {
  return immediate >> 8 & 7;
}
static_assert(kPlaces == 256 && kMaxParts == 8);

// The memory that the devices of both sides reach, one block for each end of a connection. What the
// peer writes comes first.
struct alignas(4096) SenderSlots {
  ClearToSend granted[kPlaces];          // written by the peer
  Arrival arrivals[kPlaces][kMaxParts];  // to be written to the peer
};
struct alignas(4096) ReceiverSlots {
  Arrival arrivals[kPlaces][kMaxParts];  // written by the peer
  ClearToSend granted[kPlaces];          // to be written to the peer
  uint8_t flushed[64];                   // where flushes read to: nobody looks at it
};

// The entry of a place, if the peer has written the one of `group`. It is what a peer says: check
// it with isSane().
std::optional<ClearToSend> readGrant(ClearToSend& place, uint64_t group);
bool isSane(const ClearToSend& grant, size_t index);

}  // namespace cinch::net::ib
