#include "common/network/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

namespace cinch {
namespace {

// A silent host is given up after idle + interval x count seconds.
constexpr int kKeepIdleSeconds = 30;
constexpr int kKeepIntervalSeconds = 10;
constexpr int kKeepCount = 3;
constexpr int kUnackedMilliseconds = 60000;
// A switch that is replaced, a host that is moved: what takes longer needs a person anyway.
constexpr int kOutageMilliseconds = 30 * 60 * 1000;
constexpr int kOutageKeepCount = 30;

Error systemError(const char* what, int code) {
  return errorf(Status::systemError, "%s: %s", what, strerrordesc_np(code));
}

void setOption(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof value);  // each is an improvement, not a condition
}

void tune(int fd) {
  setOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  setOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  setOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds);
  setOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds);
  setOption(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepCount);
  setOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUnackedMilliseconds);
}

Result<bool> waitFor(int fd, short events, Deadline deadline) {
  pollfd entry = {fd, events, 0};
  for (;;) {
    int n = poll(&entry, 1, pollTimeout(deadline));
    if (n > 0) return true;
    if (n == 0) return false;
    if (errno != EINTR) return systemError("poll", errno);
  }
}

Result<Socket> openSocket(const Endpoint& endpoint) {
  int domain = endpoint.address.family == Family::ipv6 ? AF_INET6 : AF_INET;
  Socket made(socket(domain, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (made.fd() < 0) return systemError("cannot make a socket", errno);
  return made;
}

// A remoteError where the host is there and nobody listens.
Error connectError(const Endpoint& server, int code) {
  return errorf(code == ECONNREFUSED ? Status::remoteError : Status::systemError,
                "cannot connect to %s: %s", server.text().c_str(), strerrordesc_np(code));
}

}  // namespace

Deadline deadlineIn(std::chrono::milliseconds time) {
  return Clock::now() + time;
}

int pollTimeout(Deadline deadline) {
  if (deadline == kNoDeadline) return -1;
  auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, INT_MAX));
}

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

void Socket::shutdown() const {
  ::shutdown(fd_, SHUT_RDWR);
}

void Socket::reset() const {
  // To "connect" a TCP socket to nothing drops what it holds and resets the peer (connect(2)).
  const sockaddr nowhere{AF_UNSPEC, {}};
  ::connect(fd_, &nowhere, sizeof nowhere);
  shutdown();
}

Result<Socket> listenOn(const IpAddress& address) {
  auto made = openSocket({address, 0});
  CINCH_TRY(made);
  sockaddr_storage where;
  socklen_t length = toSockaddr({address, 0}, &where);
  int fd = made.value().fd();
  if (bind(fd, reinterpret_cast<sockaddr*>(&where), length) != 0 || listen(fd, SOMAXCONN) != 0) {
    return errorf(Status::systemError, "cannot listen on %s: %s", address.text().c_str(),
                  strerrordesc_np(errno));
  }
  return made;
}

Result<std::optional<Accepted>> acceptFrom(const Socket& listener) {
  sockaddr_storage from = {};
  socklen_t length = sizeof from;
  int fd = accept4(listener.fd(), reinterpret_cast<sockaddr*>(&from), &length,
                   SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) {
    tune(fd);
    return std::optional(Accepted{Socket(fd), fromSockaddr(reinterpret_cast<sockaddr*>(&from))});
  }
  bool resources = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
  if (resources) return systemError("cannot accept a connection", errno);
  return std::optional<Accepted>();  // nobody waits, or it gave up before we came
}

void tolerateOutages(const Socket& socket) {
  setOption(socket.fd(), IPPROTO_TCP, TCP_KEEPINTVL, kOutageMilliseconds / 1000 / kOutageKeepCount);
  setOption(socket.fd(), IPPROTO_TCP, TCP_KEEPCNT, kOutageKeepCount);
  setOption(socket.fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, kOutageMilliseconds);
}

Result<Socket> beginConnect(const Endpoint& server, const IpAddress& from) {
  auto made = openSocket(server);
  CINCH_TRY(made);
  int fd = made.value().fd();
  sockaddr_storage where;
  if (from.family == server.address.family) {
    socklen_t length = toSockaddr({from, 0}, &where);
    if (bind(fd, reinterpret_cast<sockaddr*>(&where), length) != 0) {
      return connectError(server, errno);
    }
  }
  socklen_t length = toSockaddr(server, &where);
  // An interrupted connect goes on in the background, like a non-blocking one.
  if (connect(fd, reinterpret_cast<sockaddr*>(&where), length) != 0 && errno != EINPROGRESS &&
      errno != EINTR) {
    return connectError(server, errno);
  }
  return made;
}

Result<bool> connectOutcome(const Socket& socket, const Endpoint& server) {
  auto ready = waitFor(socket.fd(), POLLOUT, Clock::now());
  CINCH_TRY(ready);
  if (!ready.value()) return false;
  int cause = 0;
  socklen_t size = sizeof cause;
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &cause, &size);
  if (cause != 0) return connectError(server, cause);
  tune(socket.fd());
  return true;
}

Result<Socket> connectTo(const Endpoint& server, Deadline deadline) {
  auto made = beginConnect(server, {});
  CINCH_TRY(made);
  CINCH_TRY(waitFor(made.value().fd(), POLLOUT, deadline));
  auto connected = connectOutcome(made.value(), server);
  CINCH_TRY(connected);
  if (!connected.value())
    return errorf(Status::systemError, "cannot connect to %s: no answer in time",
                  server.text().c_str());
  return made;
}

Endpoint localEndpoint(const Socket& socket) {
  sockaddr_storage local = {};
  socklen_t length = sizeof local;
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&local), &length) != 0) return {};
  return fromSockaddr(reinterpret_cast<sockaddr*>(&local));
}

Endpoint remoteEndpoint(const Socket& socket) {
  sockaddr_storage remote = {};
  socklen_t length = sizeof remote;
  if (getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&remote), &length) != 0) return {};
  return fromSockaddr(reinterpret_cast<sockaddr*>(&remote));
}

Result<void> sendAll(const Socket& socket, const std::vector<uint8_t>& bytes, Deadline deadline) {
  size_t done = 0;
  while (done < bytes.size()) {
    auto sent = sendSome(socket, bytes.data() + done, bytes.size() - done);
    CINCH_TRY(sent);
    done += sent.value();
    if (done == bytes.size()) break;
    auto ready = waitFor(socket.fd(), POLLOUT, deadline);
    CINCH_TRY(ready);
    if (!ready.value()) return errorf(Status::remoteError, "it takes no more data");
  }
  return {};
}

Result<size_t> sendSome(const Socket& socket, const uint8_t* bytes, size_t n) {
  for (;;) {
    ssize_t sent = send(socket.fd(), bytes, n, MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<size_t>(sent);
    if (errno == EAGAIN) return size_t{0};
    if (errno != EINTR) return systemError("send", errno);
  }
}

Result<size_t> receiveSome(const Socket& socket, uint8_t* bytes, size_t n) {
  for (;;) {
    ssize_t received = recv(socket.fd(), bytes, n, 0);
    if (received > 0) return static_cast<size_t>(received);
    if (received == 0) return errorf(Status::remoteError, "the connection was closed");
    if (errno == EAGAIN) return size_t{0};
    if (errno != EINTR) return systemError("receive", errno);
  }
}

Result<bool> waitReadable(const Socket& socket, Deadline deadline) {
  return waitFor(socket.fd(), POLLIN, deadline);
}

}  // namespace cinch
