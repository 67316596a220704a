// What the two ends of a connection tell each other before any queue is connected: their ports,
// their ends of the queues, and where the ring of the receiving or the sending side is. Pure.
//
// All numbers are little-endian. Offset, size, field:
//
//    0  4  magic "CnIB"
//    4  2  version: 2
//    6  1  ports, 1 to kMaxPorts
//    7  1  queues, of all ports together: as many at each, 1 to kMaxQueues
//    8  8  address of the ring, in the process that sends the card
//   16 32  each port:   0 16 GID   16  2 LID   18  1 link: 1 InfiniBand, 2 Ethernet
//                      19  1 MTU: 1 (256 bytes) to 5 (4096)   20  4 key of the ring   24  8 zero
//    . 24  each queue:  0  4 number, 24 bits   4  4 first packet number, 24 bits
//                       8  1 port it is at; those of the first come first   9  7 zero
//                      16  4 ECE: vendor, 0 for none   20  4 options, 0 where there is none
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/result.h"
#include "net_plugin/ib/gid.h"

namespace cinch::net::ib {

inline constexpr size_t kMaxPorts = 4;
inline constexpr size_t kMaxQueues = 16;

enum class LinkKind : uint8_t { infiniband = 1, ethernet = 2 };

struct PortCard {
  Gid gid{};
  uint16_t lid = 0;  // of InfiniBand
  LinkKind link = LinkKind::ethernet;
  uint8_t mtu = 1;  // as ibv_mtu counts
  uint32_t ringKey = 0;

  bool operator==(const PortCard&) const = default;
};

// Enhanced connection establishment: what a queue can do beyond the standard, in bits that only its
// vendor can read. The connecting side says what it can do, the accepting one what both will do.
struct EceOptions {
  uint32_t vendor = 0;  // 0: nothing
  uint32_t options = 0;

  bool operator==(const EceOptions&) const = default;
};

struct QueueCard {
  uint32_t number = 0;
  uint32_t firstPacket = 0;
  uint8_t port = 0;  // index
  EceOptions ece{};

  bool operator==(const QueueCard&) const = default;
};

struct Card {
  uint64_t ringAddress = 0;
  std::vector<PortCard> ports;
  std::vector<QueueCard> queues;

  size_t queuesPerPort() const { return queues.size() / ports.size(); }
  bool operator==(const Card&) const = default;
};

inline constexpr size_t kMaxCardBytes = 16 + 32 * kMaxPorts + 24 * kMaxQueues;

// Within the limits above.
std::vector<uint8_t> encodeCard(const Card& card);

// The one reader of what a peer writes: nothing that it lets through is out of the limits. An error
// says what is wrong.
Result<Card> parseCard(std::span<const uint8_t> bytes);

// Whether two ends can talk: equal numbers of queues at each port, and ports of one kind of link as
// far as both have them. The error names both.
Result<void> checkFit(const Card& ours, const Card& theirs);

}  // namespace cinch::net::ib
