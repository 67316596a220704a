#include "net_plugin/ib/gid.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace cinch::net::ib {
namespace {

constexpr Gid kIpv4Prefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr size_t kIpv4At = 12;
constexpr int kGidBits = 128;

const char* nameOf(GidKind kind) {
  switch (kind) {
    case GidKind::infiniband:
      return "InfiniBand";
    case GidKind::roceV1:
      return "RoCE v1";
    case GidKind::roceV2:
      return "RoCE v2";
  }
  return "";
}

const char* nameOf(AddressFamily family) {
  switch (family) {
    case AddressFamily::any:
      return "";
    case AddressFamily::ipv4:
      return "IPv4 ";
    case AddressFamily::ipv6:
      return "IPv6 ";
  }
  return "";
}

std::string describe(const GidEntry& entry) {
  return textOf(entry.gid) + ", " + nameOf(entry.kind) + ", index " + std::to_string(entry.index);
}

std::string describe(std::span<const GidEntry> table) {
  std::string all;
  for (const GidEntry& entry : table) all += (all.empty() ? "" : "; ") + describe(entry);
  return all.empty() ? "the port has none: has its interface an address?" : "there are: " + all;
}

// The leading bits of an address.
struct Range {
  Gid prefix{};
  int bits = 0;

  bool contains(const Gid& gid) const {
    for (int bit = 0; bit < bits; ++bit) {
      const int mask = 0x80 >> (bit % 8);
      if ((gid[bit / 8] ^ prefix[bit / 8]) & mask) return false;
    }
    return true;
  }
};

// An address of either family as a GID; how many bits come before those of its own.
std::optional<int> parseAddress(const std::string& text, Gid& gid) {
  gid = kIpv4Prefix;
  if (inet_pton(AF_INET, text.c_str(), gid.data() + kIpv4At) == 1) return 8 * kIpv4At;
  if (inet_pton(AF_INET6, text.c_str(), gid.data()) == 1) return 0;
  return std::nullopt;
}

Result<Range> parseRange(const std::string& text) {
  if (text.empty()) return Range{};
  Range range;
  const size_t slash = text.find('/');
  const std::optional<int> before = parseAddress(text.substr(0, slash), range.prefix);
  int bits = -1;
  const char* end = text.data() + text.size();
  const char* number = slash == std::string::npos ? end : text.data() + slash + 1;
  const auto parsed = std::from_chars(number, end, bits);
  const bool isNumber = parsed.ec == std::errc() && parsed.ptr == end;
  if (!before || !isNumber || bits < 0 || *before + bits > kGidBits) {
    return errorf(Status::invalidUsage,
                  "NCCL_IB_ADDR_RANGE=%s is not an address and its leading bits: 10.1.0.0/16",
                  text.c_str());
  }
  range.bits = *before + bits;
  return range;
}

bool isUnset(const Gid& gid) {
  return gid == Gid{};
}

bool fits(const GidEntry& entry, const GidWish& wish, const Range& range) {
  const bool isVersion = entry.kind == (wish.roceVersion == 1 ? GidKind::roceV1 : GidKind::roceV2);
  const bool isFamily = wish.family == AddressFamily::any ||
                        isIpv4(entry.gid) == (wish.family == AddressFamily::ipv4);
  return isVersion && isFamily && !isUnset(entry.gid) && range.contains(entry.gid);
}

Result<GidChoice> entryAt(std::span<const GidEntry> table, uint32_t index) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const GidEntry& entry) {
    return entry.index == index && !isUnset(entry.gid);
  });
  if (found == table.end()) {
    return errorf(Status::invalidUsage, "no GID has NCCL_IB_GID_INDEX=%u; %s", index,
                  describe(table).c_str());
  }
  return GidChoice{*found, describe(*found) + ": NCCL_IB_GID_INDEX"};
}

}  // namespace

bool isIpv4(const Gid& gid) {
  return std::equal(gid.begin(), gid.begin() + kIpv4At, kIpv4Prefix.begin());
}

bool isLinkLocal(const Gid& gid) {
  return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

std::string textOf(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (isIpv4(gid)) {
    inet_ntop(AF_INET, gid.data() + kIpv4At, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, gid.data(), text, sizeof text);
  }
  return text;
}

Result<GidChoice> chooseGid(std::span<const GidEntry> table, const GidWish& wish) {
  if (wish.index) return entryAt(table, *wish.index);
  const Result<Range> range = parseRange(wish.range);
  if (!range) return range.error();
  const GidEntry* linkLocal = nullptr;
  for (const GidEntry& entry : table) {
    if (!fits(entry, wish, range.value())) continue;
    if (!isLinkLocal(entry.gid)) {
      return GidChoice{entry, describe(entry) + ": the first " + nameOf(wish.family) +
                                  "address of RoCE v" + std::to_string(wish.roceVersion)};
    }
    if (linkLocal == nullptr) linkLocal = &entry;
  }
  if (linkLocal != nullptr)
    return GidChoice{*linkLocal, describe(*linkLocal) + ": link-local only"};
  return errorf(Status::invalidUsage,
                "no GID is a %saddress of RoCE v%d%s%s; NCCL_IB_GID_INDEX, NCCL_IB_ADDR_FAMILY and "
                "NCCL_IB_ROCE_VERSION_NUM choose; %s",
                nameOf(wish.family), wish.roceVersion, wish.range.empty() ? "" : " in ",
                wish.range.c_str(), describe(table).c_str());
}

}  // namespace cinch::net::ib
