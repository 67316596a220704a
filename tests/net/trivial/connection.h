// TCP over loopback, one socket per connection, each message a header and its payload. The receiver
// announces each group of buffers, and a send that finds none of its tag in the group whose turn it
// is must come back later. All of it is simple rather than fast. It uses every liberty that NCCL
// gives a plugin: connect and accept give null a few times, isend and irecv say "later" now and
// then, and connect ends only when the other side has accepted, so that a caller who waits in it
// never gets out.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "tests/net/trivial/protocol.h"

namespace cinch::trivial {

inline constexpr size_t kMaxBytes = size_t{1} << 30;
inline constexpr int kMaxGroup = 8;

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

struct Announcement {
  int32_t nBuffers;
  int32_t tags[kMaxGroup];
};

struct Header {
  uint64_t nBytes;
  int64_t index;  // in its group
};

struct Buffer {
  char* data;
  size_t nBytes;  // of a receive: how many it may be, then how many arrived
  int tag;
  void* token;
  bool isDone = false;
};

// A send, or a group of receives.
struct Request {
  Connection* connection = nullptr;
  bool used = false;
  uint64_t number = 0;
  Announcement announcement{};
  size_t announcementDone = 0;
  std::array<Buffer, kMaxGroup> buffers{};
  int nDone = 0;  // of the buffers
  Header header{};
  size_t headerDone = 0;
  size_t payloadDone = 0;

  int nBuffers() const { return announcement.nBuffers; }
  bool complete() const { return used && nDone == nBuffers(); }
  bool hasTagsOf(const Request& other) const;
};

class Connection {
 public:
  Connection(Socket socket, bool sends, uint64_t nonce);

  // Moves the opening on: the connecting side says the nonce and waits to be let in.
  ncclResult_t open(bool* done);
  uint64_t nonce() const { return nonce_; }

  ThreadRule& threads() { return threads_; }
  Registrations& memory() { return memory_; }

  // Null: later.
  ncclResult_t post(std::span<const Buffer> buffers, Request** request);
  ncclResult_t test(Request& request, bool* done);

 private:
  ncclResult_t checkPost(const char* call, std::span<const Buffer> buffers);
  ncclResult_t checkTest(const Request& request);
  // The place of a send in the group whose turn it is; -1: there is none now.
  ncclResult_t takePlace(int tag, int* index);
  ncclResult_t progress();
  ncclResult_t announce();
  ncclResult_t checkHeader(const Request& request);
  ncclResult_t move(Request& request, bool* moved);
  void finishMessage(Request& request);
  ncclResult_t transfer(void* data, size_t nBytes, size_t* nDone, bool sends);

  Socket socket_;
  const bool sends_;
  uint64_t nonce_;
  size_t nonceDone_ = 0;
  size_t acknowledged_ = 0;
  int hesitations_ = 3;  // calls that give null for no reason

  ThreadRule threads_;
  Registrations memory_;
  std::array<Request, NCCL_NET_MAX_REQUESTS * kMaxGroup> requests_;
  std::deque<Request*> moving_;      // the oldest first
  std::deque<Request*> announcing_;  // of a receiver
  Announcement group_{};             // of a sender: whose turn it is
  size_t groupDone_ = sizeof group_;
  std::array<bool, kMaxGroup> taken_{};
  int nTaken_ = 0;
  uint64_t nCalls_ = 0;
  uint64_t nPosted_ = 0;
  int nOutstanding_ = 0;
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
