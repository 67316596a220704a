// TCP over loopback, one socket per connection, each message a header and its payload. All of it is
// simple rather than fast. It uses every liberty that NCCL gives a plugin: connect and accept give
// null a few times, isend and irecv say "later" now and then, and connect ends only when the other
// side has accepted, so that a caller who waits in it never gets out.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "tests/net/trivial/protocol.h"

namespace cinch::trivial {

inline constexpr size_t kMaxBytes = size_t{1} << 30;

class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  bool isOpen() const { return fd_ >= 0; }
  int get() const { return fd_; }

 private:
  int fd_;
};

class Connection;

// What listen() tells the peer, and what connect() remembers between its calls.
struct Handle {
  uint64_t nonce;
  uint16_t port;
  Connection* opening;  // null: not begun
};
static_assert(sizeof(Handle) <= NCCL_NET_HANDLE_MAXSIZE);

struct Header {
  uint64_t nBytes;
  int64_t tag;
};

struct Request {
  Connection* connection = nullptr;
  bool used = false;
  char* data = nullptr;
  size_t capacity = 0;
  int tag = 0;
  Header header{};
  size_t headerDone = 0;
  size_t payloadDone = 0;

  bool complete() const { return headerDone == sizeof header && payloadDone == header.nBytes; }
};

class Connection {
 public:
  Connection(Socket socket, bool sends, uint64_t nonce)
      : socket_(std::move(socket)), sends_(sends), nonce_(nonce) {}

  // Moves the opening on: the connecting side says the nonce and waits to be let in.
  ncclResult_t open(bool* done);
  uint64_t nonce() const { return nonce_; }

  ThreadRule& threads() { return threads_; }
  Registrations& memory() { return memory_; }

  // Null: later.
  ncclResult_t post(char* data, size_t nBytes, int tag, void* token, Request** request);
  ncclResult_t test(Request& request, bool* done);

 private:
  ncclResult_t checkPost(const char* call, const char* data, size_t nBytes, void* token);
  ncclResult_t progress();
  ncclResult_t checkHeader(const Request& request);
  ncclResult_t move(Request& request, bool* moved);
  ncclResult_t transfer(void* data, size_t nBytes, size_t* nDone, bool sends);

  Socket socket_;
  const bool sends_;
  uint64_t nonce_;
  size_t nonceDone_ = 0;
  size_t acknowledged_ = 0;
  int hesitations_ = 3;  // calls that give null for no reason

  ThreadRule threads_;
  Registrations memory_;
  std::array<Request, NCCL_NET_MAX_REQUESTS> requests_;
  uint64_t nCalls_ = 0;
  uint64_t nPosted_ = 0;
  uint64_t nMoved_ = 0;
  uint64_t nTested_ = 0;
  ncclResult_t broken_ = ncclSuccess;  // sticky
};

class Listener {
 public:
  // Listens, and fills the handle.
  static std::unique_ptr<Listener> open(Handle* handle);
  // Null: nobody has come yet.
  ncclResult_t accept(std::unique_ptr<Connection>* connection);

 private:
  Listener(Socket socket, uint64_t nonce) : socket_(std::move(socket)), nonce_(nonce) {}

  Socket socket_;
  uint64_t nonce_;
  int hesitations_ = 3;
  std::unique_ptr<Connection> opening_;
};

// Begins to connect; null where that is impossible.
std::unique_ptr<Connection> beginConnect(const Handle& handle);

}  // namespace cinch::trivial
