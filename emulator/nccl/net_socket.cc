// Plain TCP behind net.h: one socket per connection, each message an 8-byte size and its payload.
#include <poll.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <list>
#include <memory>

#include "emulator/nccl/address.h"
#include "emulator/nccl/debug.h"
#include "emulator/nccl/net.h"

namespace cinch::emulator {
namespace {

constexpr int kDefaultSpeedMbps = 10000;

struct Connection;

// One message, sent or received.
struct Request {
  Connection* connection = nullptr;
  bool used = false;
  char* data = nullptr;
  uint64_t nBytes = 0;    // of the payload; for a receive known when the header is complete
  size_t capacity = 0;    // of the buffer posted for a receive
  size_t headerDone = 0;  // bytes of `nBytes` itself that have moved
  size_t payloadDone = 0;

  bool headerComplete() const { return headerDone == sizeof nBytes; }
  bool complete() const { return headerComplete() && payloadDone == nBytes; }
};

// A socket and its messages, which move strictly one after another.
struct Connection {
  Descriptor socket;
  Address peer;
  bool sends = false;
  uint64_t nonce = 0;  // opens the connection: proves that the handle was known
  size_t nonceDone = 0;
  ncclResult_t broken = ncclSuccess;  // sticky
  std::array<Request, kNetMaxRequests> requests;
  uint64_t nPosted = 0;
  uint64_t nComplete = 0;

  Request& oldest() { return requests[nComplete % kNetMaxRequests]; }
};

struct Listener {
  Descriptor socket;
  uint64_t nonce = 0;
  std::unique_ptr<Connection> opening;  // accepted, its nonce not yet read
};

struct Context {
  Interface interface;
  std::list<std::unique_ptr<Connection>> opening;  // connecting, not yet handed out
};

// What the listener's rank sends to the connecting one, and what that one keeps there meanwhile.
struct Handle {
  Address address;
  uint64_t nonce;
  Connection* opening;
};
static_assert(sizeof(Handle) <= kNetHandleBytes);

enum class Progress { moved, blocked, failed };

uint64_t nextNonce() {
  static std::atomic<uint64_t> counter{0};
  const uint64_t time = Clock::now().time_since_epoch().count();
  return (time << 12) ^ counter.fetch_add(1) ^ 0x636e6368656d756cull;
}

// Marks the connection broken by `error` (an errno, 0: closed by the peer).
Progress fail(Connection& connection, int error) {
  const bool remote = error == 0 || error == ECONNRESET || error == EPIPE || error == ETIMEDOUT ||
                      error == ECONNREFUSED || error == EHOSTUNREACH;
  connection.broken = remote ? ncclRemoteError : ncclSystemError;
  logWarn("NET/Socket : connection %s %s: %s", connection.sends ? "to" : "from",
          addressText(connection.peer).c_str(),
          error == 0 ? "closed by the peer" : strerror(error));
  return Progress::failed;
}

// Judges what a socket call returned: bytes that moved, or why none did.
Progress judge(Connection& connection, ssize_t moved) {
  if (moved > 0) return Progress::moved;
  if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    return Progress::blocked;
  }
  return fail(connection, moved < 0 ? errno : 0);
}

Progress sendSome(Connection& connection, Request& request) {
  iovec parts[] = {
      {reinterpret_cast<char*>(&request.nBytes) + request.headerDone,
       sizeof request.nBytes - request.headerDone},
      {request.data + request.payloadDone, request.nBytes - request.payloadDone},
  };
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  const ssize_t moved = sendmsg(connection.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  const Progress progress = judge(connection, moved);
  if (progress != Progress::moved) return progress;
  const size_t header = std::min<size_t>(moved, parts[0].iov_len);
  request.headerDone += header;
  request.payloadDone += moved - header;
  return progress;
}

Progress checkSize(Connection& connection, const Request& request) {
  if (request.nBytes <= request.capacity) return Progress::moved;
  connection.broken = request.nBytes > kNetMaxBytes ? ncclRemoteError : ncclInvalidUsage;
  logWarn(
      "NET/Socket : message truncated : receiving %llu bytes from %s into a buffer of %zu. Do "
      "all ranks call the same collective with the same count and type?",
      static_cast<unsigned long long>(request.nBytes), addressText(connection.peer).c_str(),
      request.capacity);
  return Progress::failed;
}

Progress receiveSome(Connection& connection, Request& request) {
  if (!request.headerComplete()) {
    char* header = reinterpret_cast<char*>(&request.nBytes);
    const ssize_t moved = recv(connection.socket.get(), header + request.headerDone,
                               sizeof request.nBytes - request.headerDone, MSG_DONTWAIT);
    const Progress progress = judge(connection, moved);
    if (progress != Progress::moved) return progress;
    request.headerDone += moved;
    return request.headerComplete() ? checkSize(connection, request) : progress;
  }
  const ssize_t moved = recv(connection.socket.get(), request.data + request.payloadDone,
                             request.nBytes - request.payloadDone, MSG_DONTWAIT);
  const Progress progress = judge(connection, moved);
  if (progress == Progress::moved) request.payloadDone += moved;
  return progress;
}

// Moves what can be moved now, over all posted messages in order: callers test only their oldest.
ncclResult_t progress(Connection& connection) {
  while (connection.broken == ncclSuccess && connection.nComplete < connection.nPosted) {
    Request& request = connection.oldest();
    const Progress step =
        connection.sends ? sendSome(connection, request) : receiveSome(connection, request);
    if (request.complete() && step != Progress::failed) {
      ++connection.nComplete;
    } else if (step != Progress::moved) {
      break;
    }
  }
  return connection.broken;
}

// Takes the next place in the queue; null while all are taken.
Request* takeRequest(Connection& connection) {
  Request& request = connection.requests[connection.nPosted % kNetMaxRequests];
  if (request.used) return nullptr;
  request = Request{};
  request.connection = &connection;
  request.used = true;
  return &request;
}

ncclResult_t post(Connection& connection, Request* request, void** out) {
  *out = nullptr;
  if (connection.broken != ncclSuccess) return connection.broken;
  if (request == nullptr) return ncclSuccess;
  ++connection.nPosted;
  *out = request;
  return progress(connection);
}

// Moves the connection's opening nonce; true once it is complete.
bool moveNonce(Connection& connection) {
  char* bytes = reinterpret_cast<char*>(&connection.nonce) + connection.nonceDone;
  const size_t left = sizeof connection.nonce - connection.nonceDone;
  const int fd = connection.socket.get();
  const ssize_t moved = connection.sends ? send(fd, bytes, left, MSG_NOSIGNAL | MSG_DONTWAIT)
                                         : recv(fd, bytes, left, MSG_DONTWAIT);
  if (judge(connection, moved) == Progress::moved) connection.nonceDone += moved;
  return connection.nonceDone == sizeof connection.nonce;
}

bool isConnected(Connection& connection) {
  pollfd target{connection.socket.get(), POLLOUT, 0};
  if (poll(&target, 1, 0) <= 0) return false;
  const int outcome = connectOutcome(target.fd);
  if (outcome != 0) fail(connection, outcome);
  return outcome == 0;
}

int linkSpeedMbps(const std::string& interface) {
  int speed = -1;
  std::ifstream("/sys/class/net/" + interface + "/speed") >> speed;
  return speed > 0 ? speed : kDefaultSpeedMbps;
}

// Begins to connect; the handle remembers it.
ncclResult_t startConnecting(Context& context, Handle& handle) {
  auto connection = std::make_unique<Connection>();
  auto socket = beginConnect(handle.address);
  if (!socket) return report(socket.error());
  connection->socket = std::move(socket.value());
  connection->peer = handle.address;
  connection->nonce = handle.nonce;
  connection->sends = true;
  handle.opening = connection.get();
  context.opening.push_back(std::move(connection));
  return ncclSuccess;
}

std::unique_ptr<Connection> acceptOne(Listener& listener) {
  Descriptor socket = acceptWaiting(listener.socket.get());
  if (!socket.isOpen()) return nullptr;
  auto connection = std::make_unique<Connection>();
  connection->peer = peerAddress(socket.get());
  connection->socket = std::move(socket);
  return connection;
}

class SocketTransport final : public NetTransport {
 public:
  const char* name() const override { return "Socket"; }
  ncclResult_t init(void** context, uint64_t commId, int trafficClass) override;
  ncclResult_t devices(int* nDevices) override;
  ncclResult_t getProperties(int device, NetProperties* properties) override;
  ncclResult_t listen(void* context, int device, void* handle, void** listener) override;
  ncclResult_t connect(void* context, int device, void* handle, void** connection) override;
  ncclResult_t accept(void* listener, void** connection) override;
  ncclResult_t regMr(void* connection, void* data, size_t nBytes, int type, void** mr) override;
  ncclResult_t deregMr(void*, void*) override { return ncclSuccess; }
  ncclResult_t isend(void* connection, const void* data, size_t nBytes, int tag, void* mr,
                     void** request) override;
  ncclResult_t irecv(void* connection, void* data, size_t nBytes, int tag, void* mr,
                     void** request) override;
  ncclResult_t test(void* request, int* done, int* nBytes) override;
  ncclResult_t closeSend(void* connection) override { return close(connection); }
  ncclResult_t closeRecv(void* connection) override { return close(connection); }
  ncclResult_t closeListen(void* listener) override;
  ncclResult_t finalize(void* context) override;
  bool isPollable() const override { return true; }
  pollfd pollTarget(void* connection) const override;

 private:
  static ncclResult_t close(void* connection);
};

ncclResult_t SocketTransport::init(void** context, uint64_t, int) {
  auto chosen = chooseInterface();
  if (!chosen) return report(chosen.error());
  auto state = std::make_unique<Context>();
  state->interface = chosen.value();
  logInfo("NET/Socket : Using [0]%s:%s", state->interface.name.c_str(),
          addressText(state->interface.address).c_str());
  *context = state.release();
  return ncclSuccess;
}

ncclResult_t SocketTransport::devices(int* nDevices) {
  *nDevices = 1;
  return ncclSuccess;
}

ncclResult_t SocketTransport::getProperties(int, NetProperties* properties) {
  const auto chosen = chooseInterface();
  if (!chosen) return report(chosen.error());
  *properties = NetProperties{};
  properties->name = chosen.value().name;
  properties->speedMbps = linkSpeedMbps(properties->name);
  return ncclSuccess;
}

ncclResult_t SocketTransport::listen(void* context, int, void* handle, void** listener) {
  auto state = std::make_unique<Listener>();
  Address address = static_cast<Context*>(context)->interface.address;
  auto socket = listenOn(address);
  if (!socket) return report(socket.error());
  state->socket = std::move(socket.value());
  state->nonce = nextNonce();
  const Handle made{address, state->nonce, nullptr};
  memcpy(handle, &made, sizeof made);
  *listener = state.release();
  return ncclSuccess;
}

ncclResult_t SocketTransport::connect(void* context, int, void* handleBytes, void** out) {
  *out = nullptr;
  Context& state = *static_cast<Context*>(context);
  Handle& handle = *static_cast<Handle*>(handleBytes);
  if (handle.opening == nullptr) {
    const ncclResult_t started = startConnecting(state, handle);
    if (started != ncclSuccess) return started;
  }
  Connection& connection = *handle.opening;
  if (isConnected(connection) && moveNonce(connection)) {
    std::erase_if(state.opening, [&](std::unique_ptr<Connection>& it) {
      return it.get() == &connection && (*out = it.release()) != nullptr;
    });
  }
  return connection.broken;
}

ncclResult_t SocketTransport::accept(void* listener, void** out) {
  *out = nullptr;
  Listener& state = *static_cast<Listener*>(listener);
  if (state.opening == nullptr) state.opening = acceptOne(state);
  if (state.opening == nullptr) return ncclSuccess;
  const bool complete = moveNonce(*state.opening);
  if (complete && state.opening->nonce == state.nonce) {
    *out = state.opening.release();
  } else if (complete || state.opening->broken != ncclSuccess) {
    state.opening.reset();  // a stranger: wait for the peer
  }
  return ncclSuccess;
}

ncclResult_t SocketTransport::regMr(void*, void*, size_t, int type, void** mr) {
  *mr = nullptr;
  return type == kNetPointerHost ? ncclSuccess : ncclInternalError;
}

ncclResult_t SocketTransport::isend(void* connection, const void* data, size_t nBytes, int, void*,
                                    void** out) {
  Connection& state = *static_cast<Connection*>(connection);
  Request* request = takeRequest(state);
  if (request != nullptr) {
    request->data = static_cast<char*>(const_cast<void*>(data));  // only ever read
    request->nBytes = nBytes;
  }
  return post(state, request, out);
}

ncclResult_t SocketTransport::irecv(void* connection, void* data, size_t nBytes, int, void*,
                                    void** out) {
  Connection& state = *static_cast<Connection*>(connection);
  Request* request = takeRequest(state);
  if (request != nullptr) {
    request->data = static_cast<char*>(data);
    request->capacity = nBytes;
  }
  return post(state, request, out);
}

ncclResult_t SocketTransport::test(void* request, int* done, int* nBytes) {
  Request& state = *static_cast<Request*>(request);
  *done = 0;
  if (!state.complete()) {
    const ncclResult_t result = progress(*state.connection);
    if (result != ncclSuccess) return result;
  }
  if (!state.complete()) return ncclSuccess;
  *done = 1;
  if (nBytes != nullptr) *nBytes = static_cast<int>(state.nBytes);
  state.used = false;
  return ncclSuccess;
}

ncclResult_t SocketTransport::close(void* connection) {
  delete static_cast<Connection*>(connection);
  return ncclSuccess;
}

ncclResult_t SocketTransport::closeListen(void* listener) {
  delete static_cast<Listener*>(listener);
  return ncclSuccess;
}

ncclResult_t SocketTransport::finalize(void* context) {
  delete static_cast<Context*>(context);
  return ncclSuccess;
}

pollfd SocketTransport::pollTarget(void* connection) const {
  const Connection& state = *static_cast<Connection*>(connection);
  return {state.socket.get(), static_cast<short>(state.sends ? POLLOUT : POLLIN), 0};
}

}  // namespace

std::unique_ptr<NetTransport> makeSocketTransport() {
  return std::make_unique<SocketTransport>();
}

}  // namespace cinch::emulator
