#include "emulator/nccl/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <sstream>
#include <thread>

#include "common/param.h"

namespace cinch::emulator {
namespace {

constexpr int kBacklog = 4096;
constexpr auto kRetryPause = std::chrono::milliseconds(50);

// The kernel's form of an address.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress toSocketAddress(const Address& address) {
  SocketAddress result;
  if (address.family == AF_INET) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(address.port);
    memcpy(&v4->sin_addr, address.bytes, sizeof v4->sin_addr);
    result.length = sizeof *v4;
  } else {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address.port);
    v6->sin6_scope_id = address.scope;
    memcpy(&v6->sin6_addr, address.bytes, sizeof v6->sin6_addr);
    result.length = sizeof *v6;
  }
  return result;
}

Address fromSocketAddress(const sockaddr* from) {
  Address address;
  address.family = from->sa_family;
  if (from->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(from);
    address.port = ntohs(v4->sin_port);
    memcpy(address.bytes, &v4->sin_addr, sizeof v4->sin_addr);
  } else {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(from);
    address.port = ntohs(v6->sin6_port);
    address.scope = v6->sin6_scope_id;
    memcpy(address.bytes, &v6->sin6_addr, sizeof v6->sin6_addr);
  }
  return address;
}

// Addresses of one link alone mean nothing to other hosts.
bool isLinkLocal(const sockaddr* address) {
  if (address->sa_family != AF_INET6) return false;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  return IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

// Interfaces that are up and have an address: IPv4 before IPv6, each in the kernel's order.
std::vector<Interface> upInterfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<Interface> found;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
      if ((entry->ifa_flags & IFF_UP) == 0 || isLinkLocal(entry->ifa_addr)) continue;
      found.push_back({entry->ifa_name, fromSocketAddress(entry->ifa_addr)});
    }
  }
  return found;
}

bool startsWith(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

// Lower is better: real networks, container bridges, loopback.
int interfaceRank(const std::string& name) {
  if (name == "lo") return 2;
  return startsWith(name, "docker") || startsWith(name, "virbr") ? 1 : 0;
}

Error systemError(const char* what, const Address& address, int error) {
  const bool gone = error == ECONNREFUSED || error == ETIMEDOUT || error == EHOSTUNREACH;
  return errorf(gone ? Status::remoteError : Status::systemError, "cannot %s %s: %s", what,
                addressText(address).c_str(), strerror(error));
}

}  // namespace

std::string addressText(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  inet_ntop(address.family, address.bytes, text, sizeof text);
  return std::string(text) + "<" + std::to_string(address.port) + ">";
}

Address peerAddress(int fd) {
  SocketAddress native;
  native.length = sizeof native.storage;
  if (getpeername(fd, native.get(), &native.length) != 0) return {};
  return fromSocketAddress(native.get());
}

Result<Address> parseAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return errorf(Status::invalidArgument, "NCCL_COMM_ID is '%s': expected host:port",
                  text.c_str());
  }
  std::string host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), text.c_str() + colon + 1, &hints, &list);
  if (error != 0) {
    return errorf(Status::invalidArgument, "NCCL_COMM_ID is '%s': %s", text.c_str(),
                  gai_strerror(error));
  }
  const Address address = fromSocketAddress(list->ai_addr);
  freeaddrinfo(list);
  return address;
}

bool interfaceMatches(const std::string& rule, const std::string& name) {
  const bool excludes = startsWith(rule, "^");
  std::string names = rule.substr(excludes ? 1 : 0);
  const bool exact = startsWith(names, "=");
  std::istringstream list(names.substr(exact ? 1 : 0));
  bool listed = false;
  for (std::string item; std::getline(list, item, ',');) {
    if (item.empty()) continue;
    listed = listed || (exact ? name == item : startsWith(name, item));
  }
  return listed != excludes;
}

Result<Interface> chooseInterface() {
  std::vector<Interface> found = upInterfaces();
  const char* rule = environmentVariable("NCCL_SOCKET_IFNAME");
  if (rule != nullptr && *rule != '\0') {
    std::erase_if(found, [&](const Interface& it) { return !interfaceMatches(rule, it.name); });
  } else {
    std::stable_sort(found.begin(), found.end(), [](const Interface& a, const Interface& b) {
      return interfaceRank(a.name) < interfaceRank(b.name);
    });
  }
  if (found.empty()) {
    return errorf(Status::systemError,
                  "no network interface is up with an address%s%s: check NCCL_SOCKET_IFNAME",
                  rule == nullptr ? "" : " and matches ", rule == nullptr ? "" : rule);
  }
  return found.front();
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

Result<Descriptor> listenOn(Address& address) {
  Descriptor socket(::socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  SocketAddress native = toSocketAddress(address);
  if (bind(socket.get(), native.get(), native.length) != 0 || listen(socket.get(), kBacklog) != 0) {
    return systemError("listen on", address, errno);
  }
  getsockname(socket.get(), native.get(), &native.length);
  address = fromSocketAddress(native.get());
  return socket;
}

Result<Descriptor> beginConnect(const Address& address) {
  Descriptor socket(::socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  SocketAddress native = toSocketAddress(address);
  if (connect(socket.get(), native.get(), native.length) != 0 && errno != EINPROGRESS) {
    return systemError("connect to", address, errno);
  }
  return socket;
}

int connectOutcome(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

Result<Descriptor> connectTo(const Address& address, Clock::time_point deadline, Refusal refusal) {
  while (true) {
    Result<Descriptor> socket = beginConnect(address);
    if (!socket) return socket;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd target{socket.value().get(), POLLOUT, 0};
    const bool answered = poll(&target, 1, std::max<int>(0, left.count())) > 0;
    const int outcome = answered ? connectOutcome(target.fd) : ETIMEDOUT;
    if (outcome == 0) return socket;
    const bool retries = refusal == Refusal::isRetried && outcome == ECONNREFUSED;
    if (!retries || Clock::now() >= deadline) return systemError("connect to", address, outcome);
    std::this_thread::sleep_for(kRetryPause);
  }
}

Descriptor acceptWaiting(int listener) {
  Descriptor socket(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  const int on = 1;
  if (socket.isOpen()) setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

}  // namespace cinch::emulator
