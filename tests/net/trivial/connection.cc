#include "tests/net/trivial/connection.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
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

// Small records go both ways: none may wait for the answer to the one before.
Connection::Connection(Socket socket, bool sends, uint64_t nonce)
    : socket_(std::move(socket)), sends_(sends), nonce_(nonce) {
  const int yes = 1;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
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

bool Request::hasTagsOf(const Request& other) const {
  return announcement.nBuffers == other.announcement.nBuffers &&
         std::equal(announcement.tags, announcement.tags + nBuffers(), other.announcement.tags);
}

ncclResult_t Connection::checkPost(const char* call, std::span<const Buffer> buffers) {
  if (const ncclResult_t result = threads_.checkTransfer(call); result != ncclSuccess)
    return result;
  const int most = sends_ ? NCCL_NET_MAX_REQUESTS * kMaxGroup : NCCL_NET_MAX_REQUESTS;
  if (nOutstanding_ == most) return breach("%s beyond %d outstanding requests", call, most);
  for (const Buffer& buffer : buffers) {
    if (buffer.nBytes > kMaxBytes) return breach("%s of %zu bytes", call, buffer.nBytes);
    if (buffer.nBytes == 0) continue;
    const ncclResult_t result = memory_.check(buffer.data, buffer.nBytes, buffer.token);
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

// Of a group that the receiver has posted, once it is known.
ncclResult_t Connection::takePlace(int tag, int* index) {
  *index = -1;
  if (nTaken_ == group_.nBuffers && groupDone_ == sizeof group_) {
    groupDone_ = nTaken_ = 0;
    taken_ = {};
  }
  const ncclResult_t result = transfer(&group_, sizeof group_, &groupDone_, false);
  if (result != ncclSuccess || groupDone_ < sizeof group_) return result;
  for (int i = 0; i < group_.nBuffers && *index < 0; ++i) {
    if (!taken_[i] && group_.tags[i] == tag) *index = i;
  }
  if (*index < 0) return ncclSuccess;
  taken_[*index] = true;
  ++nTaken_;
  return ncclSuccess;
}

ncclResult_t Connection::post(std::span<const Buffer> buffers, Request** request) {
  *request = nullptr;
  if (broken_ != ncclSuccess) return broken_;
  broken_ = checkPost(sends_ ? "isend" : "irecv", buffers);
  if (broken_ != ncclSuccess || ++nCalls_ % kPostponed == 0) return broken_;
  int index = 0;
  if (sends_) broken_ = takePlace(buffers[0].tag, &index);
  if (broken_ != ncclSuccess || index < 0) return broken_;
  Request& next = *std::find_if(requests_.begin(), requests_.end(),
                                [](const Request& candidate) { return !candidate.used; });
  next = Request{};
  next.connection = this;
  next.used = true;
  next.number = nPosted_++;
  next.announcement.nBuffers = static_cast<int>(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) next.announcement.tags[i] = buffers[i].tag;
  std::copy(buffers.begin(), buffers.end(), next.buffers.begin());
  if (sends_) next.header = {buffers[0].nBytes, index};
  ++nOutstanding_;
  moving_.push_back(&next);
  if (!sends_) announcing_.push_back(&next);
  *request = &next;
  return progress();
}

ncclResult_t Connection::announce() {
  while (!announcing_.empty()) {
    Request& request = *announcing_.front();
    const ncclResult_t result = transfer(&request.announcement, sizeof request.announcement,
                                         &request.announcementDone, true);
    if (result != ncclSuccess) return result;
    if (request.announcementDone < sizeof request.announcement) break;
    announcing_.pop_front();
  }
  return ncclSuccess;
}

// Whoever tests a request moves all of them.
ncclResult_t Connection::progress() {
  if (broken_ == ncclSuccess) broken_ = announce();
  bool moved = true;
  while (moved && broken_ == ncclSuccess && !moving_.empty()) {
    Request& request = *moving_.front();
    broken_ = move(request, &moved);
    if (broken_ == ncclSuccess && request.complete()) moving_.pop_front();
  }
  return broken_;
}

// One message of the request, or a part of it.
ncclResult_t Connection::move(Request& request, bool* moved) {
  const size_t before = request.headerDone + request.payloadDone;
  *moved = false;
  if (request.headerDone < sizeof request.header) {
    ncclResult_t result =
        transfer(&request.header, sizeof request.header, &request.headerDone, sends_);
    if (result == ncclSuccess && request.headerDone == sizeof request.header) {
      result = checkHeader(request);
    }
    if (result != ncclSuccess) return result;
  }
  if (request.headerDone == sizeof request.header) {
    Buffer& buffer = request.buffers[sends_ ? 0 : request.header.index];
    const ncclResult_t result =
        transfer(buffer.data, request.header.nBytes, &request.payloadDone, sends_);
    if (result != ncclSuccess) return result;
  }
  *moved = request.headerDone + request.payloadDone > before;
  finishMessage(request);
  return ncclSuccess;
}

void Connection::finishMessage(Request& request) {
  if (request.headerDone < sizeof request.header) return;
  if (request.payloadDone < request.header.nBytes) return;
  Buffer& buffer = request.buffers[sends_ ? 0 : request.header.index];
  buffer.nBytes = request.header.nBytes;
  buffer.isDone = true;
  ++request.nDone;
  request.headerDone = request.payloadDone = 0;
}

// Of what the peer says.
ncclResult_t Connection::checkHeader(const Request& request) {
  if (sends_) return ncclSuccess;
  const Header& header = request.header;
  if (header.index < 0 || header.index >= request.nBuffers() ||
      request.buffers[header.index].isDone) {
    return breach("a message for buffer %d of %d", static_cast<int>(header.index),
                  request.nBuffers());
  }
  const Buffer& buffer = request.buffers[header.index];
  if (header.nBytes <= buffer.nBytes) return ncclSuccess;
  logWarn("message truncated : %zu bytes for a buffer of %zu", size_t{header.nBytes},
          buffer.nBytes);
  return ncclInvalidUsage;
}

// Users of a connection, who have tags of their own, test independently of each other.
ncclResult_t Connection::checkTest(const Request& request) {
  if (const ncclResult_t result = threads_.checkTransfer("test"); result != ncclSuccess)
    return result;
  if (!request.used) return breach("test of a request that is not outstanding");
  for (const Request& other : requests_) {
    if (other.used && other.number < request.number && other.hasTagsOf(request)) {
      return breach("test of a request that is not the oldest");
    }
  }
  return ncclSuccess;
}

ncclResult_t Connection::test(Request& request, bool* done) {
  *done = false;
  if (const ncclResult_t result = checkTest(request); result != ncclSuccess) {
    return broken_ = result;
  }
  if (!request.complete() && progress() != ncclSuccess) return broken_;
  if (!request.complete()) return ncclSuccess;
  *done = true;
  request.used = false;
  --nOutstanding_;
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
