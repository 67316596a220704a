#include "net_plugin/ib/card.h"

#include <algorithm>

#include "common/byte_order.h"

namespace cinch::net::ib {
namespace {

constexpr uint32_t kMagic = 0x42496e43;  // "CnIB"
constexpr uint16_t kVersion = 2;
constexpr size_t kCardHeadBytes = 16;
constexpr size_t kPortBytes = 32;
constexpr size_t kQueueBytes = 24;
constexpr uint32_t kMost24Bits = (1 << 24) - 1;
constexpr uint8_t kMostMtu = 5;

void encode(const PortCard& port, uint8_t* at) {
  std::copy(port.gid.begin(), port.gid.end(), at);
  storeLittle(port.lid, at + 16);
  at[18] = static_cast<uint8_t>(port.link);
  at[19] = port.mtu;
  storeLittle(port.ringKey, at + 20);
}

void encode(const QueueCard& queue, uint8_t* at) {
  storeLittle(queue.number, at);
  storeLittle(queue.firstPacket, at + 4);
  at[8] = queue.port;
  storeLittle(queue.ece.vendor, at + 16);
  storeLittle(queue.ece.options, at + 20);
}

bool isZero(std::span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

Error wrong(const char* what) {
  return errorf(Status::remoteError, "the peer's card of its InfiniBand devices has %s", what);
}

Result<PortCard> parsePort(std::span<const uint8_t, kPortBytes> bytes) {
  const uint8_t* at = bytes.data();
  const bool isLink = at[18] == static_cast<uint8_t>(LinkKind::infiniband) ||
                      at[18] == static_cast<uint8_t>(LinkKind::ethernet);
  if (!isLink) return wrong("a port of an unknown link");
  if (at[19] < 1 || at[19] > kMostMtu) return wrong("an unknown MTU");
  if (!isZero(bytes.subspan<24>())) return wrong("something where zeros belong");
  PortCard port = {.lid = loadLittle<uint16_t>(at + 16),
                   .link = static_cast<LinkKind>(at[18]),
                   .mtu = at[19],
                   .ringKey = loadLittle<uint32_t>(at + 20)};
  std::copy_n(at, port.gid.size(), port.gid.begin());
  return port;
}

Result<QueueCard> parseQueue(std::span<const uint8_t, kQueueBytes> bytes, size_t nPorts) {
  const uint8_t* at = bytes.data();
  const EceOptions ece = {loadLittle<uint32_t>(at + 16), loadLittle<uint32_t>(at + 20)};
  const QueueCard queue = {loadLittle<uint32_t>(at), loadLittle<uint32_t>(at + 4), at[8], ece};
  if (queue.number > kMost24Bits || queue.firstPacket > kMost24Bits) {
    return wrong("a queue's number above 24 bits");
  }
  if (queue.port >= nPorts) return wrong("a queue at a port that it does not have");
  if (!isZero(bytes.subspan<9, 7>())) return wrong("something where zeros belong");
  if (ece.vendor == 0 && ece.options != 0) return wrong("options of no vendor");
  return queue;
}

const char* nameOf(LinkKind link) {
  return link == LinkKind::infiniband ? "InfiniBand" : "Ethernet (RoCE)";
}

}  // namespace

std::vector<uint8_t> encodeCard(const Card& card) {
  std::vector<uint8_t> bytes(kCardHeadBytes + kPortBytes * card.ports.size() +
                             kQueueBytes * card.queues.size());
  uint8_t* at = bytes.data();
  storeLittle(kMagic, at);
  storeLittle(kVersion, at + 4);
  at[6] = static_cast<uint8_t>(card.ports.size());
  at[7] = static_cast<uint8_t>(card.queues.size());
  storeLittle(card.ringAddress, at + 8);
  at += kCardHeadBytes;
  for (const PortCard& port : card.ports) {
    encode(port, at);
    at += kPortBytes;
  }
  for (const QueueCard& queue : card.queues) {
    encode(queue, at);
    at += kQueueBytes;
  }
  return bytes;
}

Result<Card> parseCard(std::span<const uint8_t> bytes) {
  if (bytes.size() < kCardHeadBytes || loadLittle<uint32_t>(bytes.data()) != kMagic) {
    return wrong("another form: do all ranks use the same version of Cinch's net plugin?");
  }
  const uint16_t version = loadLittle<uint16_t>(bytes.data() + 4);
  if (version != kVersion) {
    return errorf(
        Status::invalidUsage,
        "the peer speaks version %d of the protocol over InfiniBand, this process %d: use "
        "the same version of Cinch's net plugin on all ranks",
        version, kVersion);
  }
  const size_t nPorts = bytes[6];
  const size_t nQueues = bytes[7];
  if (nPorts < 1 || nPorts > kMaxPorts) return wrong("no or too many ports");
  if (nQueues < 1 || nQueues > kMaxQueues) return wrong("no or too many queues");
  if (bytes.size() != kCardHeadBytes + kPortBytes * nPorts + kQueueBytes * nQueues) {
    return wrong("another length than its ports and queues take");
  }
  Card card{.ringAddress = loadLittle<uint64_t>(bytes.data() + 8), .ports = {}, .queues = {}};
  auto rest = bytes.subspan(kCardHeadBytes);
  for (; card.ports.size() < nPorts; rest = rest.subspan(kPortBytes)) {
    const Result<PortCard> port = parsePort(rest.first<kPortBytes>());
    if (!port) return port.error();
    card.ports.push_back(port.value());
  }
  for (; card.queues.size() < nQueues; rest = rest.subspan(kQueueBytes)) {
    const Result<QueueCard> queue = parseQueue(rest.first<kQueueBytes>(), nPorts);
    if (!queue) return queue.error();
    card.queues.push_back(queue.value());
  }
  for (size_t i = 0; i < nQueues; ++i) {
    if (nQueues % nPorts != 0 || card.queues[i].port != i / (nQueues / nPorts)) {
      return wrong("queues that are not alike at all ports");
    }
  }
  return card;
}

Result<void> checkFit(const Card& ours, const Card& theirs) {
  if (ours.queuesPerPort() != theirs.queuesPerPort()) {
    return errorf(Status::invalidUsage,
                  "this process has %zu queues for a connection, its peer %zu: set "
                  "NCCL_IB_QPS_PER_CONNECTION alike on all ranks",
                  ours.queuesPerPort(), theirs.queuesPerPort());
  }
  for (size_t i = 0; i < std::min(ours.ports.size(), theirs.ports.size()); ++i) {
    const LinkKind here = ours.ports[i].link;
    const LinkKind there = theirs.ports[i].link;
    if (here == there) continue;
    return errorf(Status::invalidUsage,
                  "a port of this process is on %s and the one that it would talk to on %s: choose "
                  "devices that reach each other with NCCL_IB_HCA",
                  nameOf(here), nameOf(there));
  }
  return {};
}

}  // namespace cinch::net::ib
