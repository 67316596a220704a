#include "common/network/ip_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

namespace cinch {
namespace {

Endpoint fromIpv4(const sockaddr_in& in) {
  Endpoint endpoint;
  endpoint.address.family = Family::ipv4;
  memcpy(endpoint.address.bytes.data(), &in.sin_addr, 4);
  endpoint.port = ntohs(in.sin_port);
  return endpoint;
}

Endpoint fromIpv6(const sockaddr_in6& in) {
  Endpoint endpoint;
  endpoint.port = ntohs(in.sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&in.sin6_addr)) {
    endpoint.address.family = Family::ipv4;
    memcpy(endpoint.address.bytes.data(), in.sin6_addr.s6_addr + 12, 4);
    return endpoint;
  }
  endpoint.address.family = Family::ipv6;
  memcpy(endpoint.address.bytes.data(), in.sin6_addr.s6_addr, 16);
  endpoint.address.scope = in.sin6_scope_id;
  return endpoint;
}

}  // namespace

bool IpAddress::isLoopback() const {
  if (family == Family::ipv4) return bytes[0] == 127;
  return family == Family::ipv6 && bytes[15] == 1 &&
         std::all_of(bytes.begin(), bytes.begin() + 15, [](uint8_t byte) { return byte == 0; });
}

bool IpAddress::isLinkLocal() const {
  if (family == Family::ipv4) return bytes[0] == 169 && bytes[1] == 254;
  return family == Family::ipv6 && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

std::string IpAddress::text() const {
  char buffer[INET6_ADDRSTRLEN] = "no address";
  if (family == Family::ipv4) inet_ntop(AF_INET, bytes.data(), buffer, sizeof buffer);
  if (family == Family::ipv6) inet_ntop(AF_INET6, bytes.data(), buffer, sizeof buffer);
  return buffer;
}

std::string Endpoint::text() const {
  std::string host = address.text();
  if (address.family == Family::ipv6) host = "[" + host + "]";
  return host + ":" + std::to_string(port);
}

Endpoint fromSockaddr(const sockaddr* address) {
  // Copied, since the kernel's structures overlay one another.
  if (address->sa_family == AF_INET) {
    sockaddr_in in;
    memcpy(&in, address, sizeof in);
    return fromIpv4(in);
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 in;
    memcpy(&in, address, sizeof in);
    return fromIpv6(in);
  }
  return {};
}

socklen_t toSockaddr(const Endpoint& endpoint, sockaddr_storage* out) {
  *out = {};
  if (endpoint.address.family == Family::ipv4) {
    sockaddr_in in = {};
    in.sin_family = AF_INET;
    in.sin_port = htons(endpoint.port);
    memcpy(&in.sin_addr, endpoint.address.bytes.data(), 4);
    memcpy(out, &in, sizeof in);
    return sizeof in;
  }
  if (endpoint.address.family == Family::ipv6) {
    sockaddr_in6 in = {};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(endpoint.port);
    memcpy(&in.sin6_addr, endpoint.address.bytes.data(), 16);
    in.sin6_scope_id = endpoint.address.scope;
    memcpy(out, &in, sizeof in);
    return sizeof in;
  }
  return 0;
}

}  // namespace cinch
