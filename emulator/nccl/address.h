// IP addresses, the choice of a network interface, and sockets that never block.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/result.h"

namespace cinch::emulator {

using Clock = std::chrono::steady_clock;

// An IPv4 or IPv6 address with a port, as it travels inside unique ids and handles.
struct Address {
  uint16_t family = 0;  // AF_INET or AF_INET6
  uint16_t port = 0;    // host byte order
  uint32_t scope = 0;   // IPv6 scope id
  uint8_t bytes[16] = {};
};
static_assert(sizeof(Address) == 24);

std::string addressText(const Address& address);  // "10.0.0.1<4711>"
// Of the other end of a connected socket.
Address peerAddress(int fd);

// "host:port" or "[v6]:port", as in NCCL_COMM_ID.
Result<Address> parseAddress(const std::string& text);

struct Interface {
  std::string name;
  Address address;  // port 0
};

// True where `name` is chosen by a rule as in NCCL_SOCKET_IFNAME: prefixes separated by commas,
// "=" in front for exact names, "^" to exclude.
bool interfaceMatches(const std::string& rule, const std::string& name);

// The interface that traffic uses: the first that NCCL_SOCKET_IFNAME allows; without it the first
// that is up and not loopback, container bridges last, else loopback.
Result<Interface> chooseInterface();

// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  int get() const { return fd_; }
  bool isOpen() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Listens on `address`, without blocking; a port of 0 is replaced by the one that was given.
Result<Descriptor> listenOn(Address& address);

// Begins to connect, without blocking: completion shows as POLLOUT, its outcome in
// connectOutcome().
Result<Descriptor> beginConnect(const Address& address);
// 0, or the errno that the connection attempt ended with.
int connectOutcome(int fd);

// What a refused connection means: that nobody will ever listen there, or only not yet.
enum class Refusal { isFinal, isRetried };

// Connects, waiting until `deadline` at most. The socket does not block.
Result<Descriptor> connectTo(const Address& address, Clock::time_point deadline, Refusal refusal);

// Takes one waiting connection; a closed descriptor where there is none.
Descriptor acceptWaiting(int listener);

}  // namespace cinch::emulator
