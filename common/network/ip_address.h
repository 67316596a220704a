// IPv4 and IPv6 addresses as plain values.
#pragma once

#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <string>

namespace cinch {

enum class Family : uint8_t { none = 0, ipv4 = 4, ipv6 = 6 };

struct IpAddress {
  Family family = Family::none;
  std::array<uint8_t, 16> bytes{};  // network order; IPv4 fills the first four, the rest is 0
  // The interface of an IPv6 address that means something on one link only: this host's number of
  // it, and no part of what the address is compared by.
  uint32_t scope = 0;

  bool operator==(const IpAddress& other) const { return (*this <=> other) == 0; }
  std::strong_ordering operator<=>(const IpAddress& other) const {
    if (const auto order = family <=> other.family; order != 0) return order;
    return bytes <=> other.bytes;
  }
  bool isLoopback() const;
  bool isLinkLocal() const;  // means something on one link only
  std::string text() const;  // "10.0.0.7", "fd00::2"
};

struct Endpoint {
  IpAddress address;
  uint16_t port = 0;

  auto operator<=>(const Endpoint&) const = default;
  std::string text() const;  // "10.0.0.7:4000", "[fd00::2]:4000"
};

// From the kernel's form; IPv4 inside IPv6 becomes IPv4; family none where it is neither.
Endpoint fromSockaddr(const sockaddr* address);

// To the kernel's form; returns its length, 0 for family none.
socklen_t toSockaddr(const Endpoint& endpoint, sockaddr_storage* out);

}  // namespace cinch
