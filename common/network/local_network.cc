#include "common/network/local_network.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

namespace cinch {
namespace {

// The other end of descriptor `fd`, where that is a TCP connection.
std::optional<IpAddress> tcpPeer(int fd) {
  int type = 0;
  socklen_t length = sizeof type;
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM) {
    return std::nullopt;
  }
  sockaddr_storage peer = {};
  length = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return std::nullopt;
  IpAddress address = fromSockaddr(reinterpret_cast<sockaddr*>(&peer)).address;
  return address.family == Family::none ? std::nullopt : std::optional(address);
}

bool startsWith(const std::string& text, std::string_view prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

// Lower is taken first, where the user does not choose.
int preference(const Interface& interface) {
  if (interface.loopback) return 3;
  if (startsWith(interface.name, "docker") || startsWith(interface.name, "virbr")) return 2;
  return startsWith(interface.name, "ib") ? 0 : 1;
}

bool hasFamily(const IpAddress& address, const std::string& family) {
  if (family == "AF_INET") return address.family == Family::ipv4;
  if (family == "AF_INET6") return address.family == Family::ipv6;
  return true;
}

}  // namespace

std::vector<Interface> listInterfaces() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* at = first; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || !(at->ifa_flags & IFF_UP)) continue;
    IpAddress address = fromSockaddr(at->ifa_addr).address;
    if (address.family == Family::none || address.isLinkLocal()) continue;
    found.push_back({at->ifa_name, address, (at->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return found;
}

std::vector<IpAddress> connectedPeers(size_t limit) {
  std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  std::set<IpAddress> found;
  while (folder != nullptr && found.size() < limit) {
    const dirent* entry = readdir(folder.get());
    if (entry == nullptr) break;
    if (entry->d_name[0] == '.') continue;
    std::optional<IpAddress> peer = tcpPeer(atoi(entry->d_name));
    if (peer && !peer->isLoopback()) found.insert(*peer);
  }
  return {found.begin(), found.end()};
}

bool matchesInterfaceList(const std::string& list, const std::string& name) {
  std::string_view rest = list;
  bool exclude = !rest.empty() && rest[0] == '^';
  if (exclude) rest.remove_prefix(1);
  bool exact = !rest.empty() && rest[0] == '=';
  if (exact) rest.remove_prefix(1);
  if (rest.empty()) return true;
  bool found = false;
  while (!rest.empty() && !found) {
    std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(item.size() == rest.size() ? item.size() : item.size() + 1);
    found = !item.empty() && (exact ? name == item : startsWith(name, item));
  }
  return found != exclude;
}

Result<IpAddress> chooseAddress(const std::vector<Interface>& interfaces,
                                const std::string& interfaceList, const std::string& family) {
  const Interface* best = nullptr;
  for (const Interface& candidate : interfaces) {
    if (!hasFamily(candidate.address, family)) continue;
    if (!matchesInterfaceList(interfaceList, candidate.name)) continue;
    bool better =
        best == nullptr || (interfaceList.empty() && preference(candidate) < preference(*best));
    if (better) best = &candidate;
  }
  if (best != nullptr) return best->address;
  return errorf(Status::systemError,
                "no network interface that is up fits NCCL_SOCKET_IFNAME='%s' and "
                "NCCL_SOCKET_FAMILY='%s': change them, or unset them to take the first",
                interfaceList.c_str(), family.c_str());
}

}  // namespace cinch
