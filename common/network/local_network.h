// What this host's network looks like, and which of its addresses the agreement server listens on.
#pragma once

#include <string>
#include <vector>

#include "common/network/ip_address.h"
#include "common/result.h"

namespace cinch {

struct Interface {
  std::string name;
  IpAddress address;
  bool loopback = false;
};

// The addresses of all interfaces that are up, in the kernel's order, without link-local ones.
std::vector<Interface> listInterfaces();

// The distinct addresses at the other ends of this process's TCP connections, at most `limit`,
// without loopback. Only looks: descriptors of other owners may come and go meanwhile.
std::vector<IpAddress> connectedPeers(size_t limit);

// NCCL_SOCKET_IFNAME's rule: a comma list of prefixes; "=" before the list asks for exact names,
// "^" for names that are not in it; empty matches all.
bool matchesInterfaceList(const std::string& list, const std::string& name);

// The address that NCCL's own rule leads to: the first interface in `interfaceList`
// (NCCL_SOCKET_IFNAME) of `family` (NCCL_SOCKET_FAMILY: AF_INET, AF_INET6), both empty where unset.
// Without a list InfiniBand's interfaces come first, those of containers and virtual machines
// later, loopback last. Fails where nothing matches.
Result<IpAddress> chooseAddress(const std::vector<Interface>& interfaces,
                                const std::string& interfaceList, const std::string& family);

}  // namespace cinch
