// Which of a RoCE port's addresses (GIDs) to use. A port has one for each address of its interface
// and version of RoCE; two ends whose choices do not fit cannot reach each other, and all that is
// seen of it is a timeout. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/result.h"

namespace cinch::net::ib {

using Gid = std::array<uint8_t, 16>;

// Queue pairs take the index of their address in 8 bits (ibv_global_route::sgid_index).
inline constexpr uint32_t kMostGidIndex = 255;

enum class GidKind { infiniband, roceV1, roceV2 };

struct GidEntry {
  uint32_t index = 0;  // in the port's table
  Gid gid{};
  GidKind kind = GidKind::roceV2;
};

enum class AddressFamily { any, ipv4, ipv6 };

// What the environment asks for (NCCL's variables).
struct GidWish {
  std::optional<uint32_t> index{};             // NCCL_IB_GID_INDEX
  AddressFamily family = AddressFamily::ipv4;  // NCCL_IB_ADDR_FAMILY
  int roceVersion = 2;                         // NCCL_IB_ROCE_VERSION_NUM
  std::string range{};                         // NCCL_IB_ADDR_RANGE: address/bits, empty for all
};

struct GidChoice {
  GidEntry entry;
  std::string why;  // for the log: "10.1.2.3, RoCE v2, index 3: the first IPv4 address of v2"
};

// IPv4 addresses are those that are mapped into IPv6's space (RFC 4291, 2.5.5.2).
bool isIpv4(const Gid& gid);
// fe80::/10, which only the same link can reach.
bool isLinkLocal(const Gid& gid);
// "10.1.2.3" or "2001:db8::1".
std::string textOf(const Gid& gid);

// The entry of the index that was asked for; else the first of the version, family and range that
// is not link-local; else the first link-local one of them. The error lists what there is.
Result<GidChoice> chooseGid(std::span<const GidEntry> table, const GidWish& wish);

}  // namespace cinch::net::ib
