// Small TCP sockets: owned, non-blocking underneath, every wait with a deadline, never a signal.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/network/ip_address.h"
#include "common/result.h"

namespace cinch {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();

Deadline deadlineIn(std::chrono::milliseconds time);

// Milliseconds until `deadline` as poll() and epoll_wait() want them: rounded up, -1 for never.
int pollTimeout(Deadline deadline);

// Owns a descriptor, which is closed when a program is executed.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;

  int fd() const { return fd_; }

  // Ends the connection for every descriptor that refers to it, copies in forked children included,
  // and wakes whoever waits on it. The descriptor stays valid until destruction.
  void shutdown() const;
  // The same at once: what the kernel has not sent yet is never sent.
  void reset() const;

 private:
  int fd_;
};

// Listens on `address` with a port of the kernel's choice.
Result<Socket> listenOn(const IpAddress& address);

// The next waiting connection and where it comes from; none where nobody waits. An error says that
// this process cannot take another connection now (errno in the text).
struct Accepted {
  Socket socket;
  Endpoint from;
};
Result<std::optional<Accepted>> acceptFrom(const Socket& listener);

// Connects; the error holds the address and the cause. Keeps the connection alive, so that a host
// that vanishes is noticed within about a minute.
Result<Socket> connectTo(const Endpoint& server, Deadline deadline);

// Keeps a connection over which nobody waits for data through an outage of the network of minutes:
// only a host that is silent for half an hour is taken to have vanished.
void tolerateOutages(const Socket& socket);

// Begins to connect, from the address `from` where it is of a family; connectOutcome() tells the
// rest.
Result<Socket> beginConnect(const Endpoint& server, const IpAddress& from);

// True once the connection stands, false while nobody can know. Never waits. A remoteError says
// that the host is there and nobody listens.
Result<bool> connectOutcome(const Socket& socket, const Endpoint& server);

// Where a listening or connected socket is on this side.
Endpoint localEndpoint(const Socket& socket);
// Where the other end of a connected socket is; none where that is not known any more.
Endpoint remoteEndpoint(const Socket& socket);

// Waits until `bytes` are handed to the kernel.
Result<void> sendAll(const Socket& socket, const std::vector<uint8_t>& bytes, Deadline deadline);

// Sends what the kernel takes at once; returns how much.
Result<size_t> sendSome(const Socket& socket, const uint8_t* bytes, size_t n);

// Receives what is there, at most `n`; 0 where there is nothing yet. The other's leaving is an
// error.
Result<size_t> receiveSome(const Socket& socket, uint8_t* bytes, size_t n);

// Waits until there is something to receive; false where `deadline` came first.
Result<bool> waitReadable(const Socket& socket, Deadline deadline);

}  // namespace cinch
