#include "tests/net/trivial/connection.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace cinch::trivial {
namespace {

constexpr uint64_t kPostponed = 7;  // every so-many-th post is told to come back later

Socket openSocket() {
  return Socket(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

uint64_t newNonce() {
  static std::atomic<uint64_t> counter{0};
  const uint64_t time = std::chrono::steady_clock::now().time_since_epoch().count();
  return time << 16 ^ static_cast<uint64_t>(getpid()) << 8 ^ counter.fetch_add(1);
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

// Moves what can be moved now; what is left is seen in `nDone`.
ncclResult_t Connection::transfer(void* data, size_t nBytes, size_t* nDone, bool sends) {
  if (*nDone == nBytes) return ncclSuccess;
  char* begin = static_cast<char*>(data) + *nDone;
  const size_t left = nBytes - *nDone;
  const ssize_t moved = sends ? ::send(socket_.get(), begin, left, MSG_NOSIGNAL | MSG_DONTWAIT)
                              : ::recv(socket_.get(), begin, left, MSG_DONTWAIT);
  if (moved > 0) *nDone += moved;
  if (moved > 0 || (moved < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN))) {
    return ncclSuccess;
  }
  logWarn("the peer is gone: %s", moved < 0 ? strerror(errno) : "closed");
  return ncclRemoteError;
}

ncclResult_t Connection::open(bool* done) {
  *done = false;
  if (hesitations_-- > 0) return ncclSuccess;
  const ncclResult_t said = transfer(&nonce_, sizeof nonce_, &nonceDone_, sends_);
  if (said != ncclSuccess || nonceDone_ < sizeof nonce_) return said;
  char yes = 1;
  const ncclResult_t answered = transfer(&yes, sizeof yes, &acknowledged_, !sends_);
  *done = answered == ncclSuccess && acknowledged_ == sizeof yes;
  return answered;
}

ncclResult_t Connection::checkPost(const char* call, const char* data, size_t nBytes, void* token) {
  if (const ncclResult_t result = threads_.checkTransfer(call); result != ncclSuccess)
    return result;
  if (nBytes > kMaxBytes) return breach("%s of %zu bytes", call, nBytes);
  if (nPosted_ - nTested_ == NCCL_NET_MAX_REQUESTS) {
    return breach("%s beyond %d outstanding requests", call, NCCL_NET_MAX_REQUESTS);
  }
  return nBytes == 0 ? ncclSuccess : memory_.check(data, nBytes, token);
}

ncclResult_t Connection::post(char* data, size_t nBytes, int tag, void* token, Request** request) {
  *request = nullptr;
  if (broken_ != ncclSuccess) return broken_;
  broken_ = checkPost(sends_ ? "isend" : "irecv", data, nBytes, token);
  if (broken_ != ncclSuccess || ++nCalls_ % kPostponed == 0) return broken_;
  Request& next = requests_[nPosted_ % requests_.size()];
  next = Request{};
  next.connection = this;
  next.used = true;
  next.data = data;
  next.capacity = nBytes;
  next.tag = tag;
  if (sends_) next.header = {nBytes, tag};
  ++nPosted_;
  *request = &next;
  return progress();
}

// Whoever tests the oldest request moves all of them.
ncclResult_t Connection::progress() {
  bool moved = true;
  while (moved && broken_ == ncclSuccess && nMoved_ < nPosted_) {
    Request& request = requests_[nMoved_ % requests_.size()];
    broken_ = move(request, &moved);
    if (broken_ == ncclSuccess && request.complete()) ++nMoved_;
  }
  return broken_;
}

ncclResult_t Connection::move(Request& request, bool* moved) {
  const size_t before = request.headerDone + request.payloadDone;
  if (request.headerDone < sizeof request.header) {
    ncclResult_t result =
        transfer(&request.header, sizeof request.header, &request.headerDone, sends_);
    if (result == ncclSuccess && request.headerDone == sizeof request.header) {
      result = checkHeader(request);
    }
    if (result != ncclSuccess) return result;
  }
  ncclResult_t result = ncclSuccess;
  if (request.headerDone == sizeof request.header) {
    result = transfer(request.data, request.header.nBytes, &request.payloadDone, sends_);
  }
  *moved = request.headerDone + request.payloadDone > before;
  return result;
}

ncclResult_t Connection::checkHeader(const Request& request) {
  if (request.header.tag != request.tag) {
    return breach("a message with tag %d meets a receive with tag %d",
                  static_cast<int>(request.header.tag), request.tag);
  }
  if (request.header.nBytes <= request.capacity) return ncclSuccess;
  logWarn("message truncated : %zu bytes for a buffer of %zu", size_t{request.header.nBytes},
          request.capacity);
  return ncclInvalidUsage;
}

ncclResult_t Connection::test(Request& request, bool* done) {
  *done = false;
  if (const ncclResult_t result = threads_.checkTransfer("test"); result != ncclSuccess) {
    return broken_ = result;
  }
  if (!request.used) return broken_ = breach("test of a request that is not outstanding");
  if (&request != &requests_[nTested_ % requests_.size()]) {
    return broken_ = breach("test of a request that is not the oldest");
  }
  if (!request.complete() && progress() != ncclSuccess) return broken_;
  if (!request.complete()) return ncclSuccess;
  *done = true;
  request.used = false;
  ++nTested_;
  return ncclSuccess;
}

std::unique_ptr<Listener> Listener::open(Handle* handle) {
  Socket socket = openSocket();
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!socket.isOpen() || bind(socket.get(), generic, length) != 0 ||
      ::listen(socket.get(), 4) != 0 || getsockname(socket.get(), generic, &length) != 0) {
    logWarn("cannot listen: %s", strerror(errno));
    return nullptr;
  }
  *handle = {newNonce(), ntohs(address.sin_port), nullptr};
  return std::unique_ptr<Listener>(new Listener(std::move(socket), handle->nonce));
}

ncclResult_t Listener::accept(std::unique_ptr<Connection>* connection) {
  if (hesitations_-- > 0) return ncclSuccess;
  if (opening_ == nullptr) {
    Socket socket(accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.isOpen()) return ncclSuccess;
    opening_ = std::make_unique<Connection>(std::move(socket), false, 0);
  }
  bool done = false;
  const ncclResult_t result = opening_->open(&done);
  if (result != ncclSuccess || !done) return result;
  if (opening_->nonce() != nonce_) return breach("a connection with another listener's handle");
  *connection = std::move(opening_);
  return ncclSuccess;
}

std::unique_ptr<Connection> beginConnect(const Handle& handle) {
  Socket socket = openSocket();
  const sockaddr_in address = loopback(handle.port);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (!socket.isOpen() ||
      (::connect(socket.get(), generic, sizeof address) != 0 && errno != EINPROGRESS)) {
    logWarn("cannot connect: %s", strerror(errno));
    return nullptr;
  }
  return std::make_unique<Connection>(std::move(socket), true, handle.nonce);
}

}  // namespace cinch::trivial
