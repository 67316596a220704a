// A network as NCCL's plugin tables see it, in four nouns: device, listener, connection, request.
// Every transport implements these; the adapters in abi/ put NCCL's versions of the table in front.
//
// The rules of all versions (NCCL 2.20 to 2.30):
// - connect() and accept() never block: they give null, to be called again. What a transport must
//   remember in between it keeps in the handle (connect: the caller's own copy) or in the listener.
// - send() and receive() may give null: nothing was posted, try later. A connection takes
//   NCCL_NET_MAX_REQUESTS receives at a time, and as many sends as these have buffers.
// - A receive is a group of 1 to maxReceives buffers and one request, done when all of them are. On
//   one connection the k-th group takes the next as many sends. Where maxReceives is 1, tags mean
//   nothing; else several users share a connection, who send independently of each other: each send
//   goes to a free buffer of its tag in the group whose turn it is, the first where several have
//   that tag, and while there is none (be the group of one buffer or of more) it is put off.
// - A send may be smaller than the buffer that was posted for it, zero bytes included; a larger one
//   is an error.
// - Buffers belong to the caller and stay as they are until the request is done.
// - Set-up and tear-down come from a service thread, send, receive and test from a progress thread:
//   one thread at a time uses a connection, several use the network. Nothing blocks.
// - An error of a request ends the traffic of its communicator.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/result.h"

namespace cinch::net {

inline constexpr size_t kHandleBytes = 128;
inline constexpr int kMaxRequests = 32;  // receives outstanding on one connection
inline constexpr size_t kMaxGroup = 8;   // buffers of one request

// What listen() fills and the peer's connect() gets a copy of.
using Handle = std::array<std::byte, kHandleBytes>;

struct Properties {
  const char* name = nullptr;     // unique among devices; lives as long as the process
  const char* pciPath = nullptr;  // in /sys; null where the device is not on PCI
  uint64_t guid = 0;
  // Memory of a GPU: by its address, with the kernel's help; and as a dma-buf.
  bool takesDeviceMemory = false;
  bool takesDmabuf = false;
  int speedMbps = 0;
  int port = 0;
  float latencyUs = 0;  // 0: NCCL's default
  int maxConnections = 0;
  int maxReceives = 1;  // buffers of one receive request, to kMaxGroup
  size_t maxBytes = 0;  // of one message
};

enum class MemoryKind { host, device };

// Memory as another driver of the kernel hands it out: from `offset` bytes into the dma-buf behind
// the descriptor, which stays the caller's and may be closed once the memory is registered.
struct Dmabuf {
  int descriptor = -1;
  uint64_t offset = 0;
};

// Where one message goes to.
struct Buffer {
  void* data = nullptr;
  size_t capacity = 0;
  int tag = 0;
  void* memory = nullptr;  // its token
};

// Owned by its connection; not to be used again once test() has given true or an error.
class Request {
 public:
  virtual ~Request() = default;
  // Moves things on; true once the bytes are sent, or there. `sizes` (never null) then gets how
  // many, for each buffer in the order in which they were posted.
  virtual Result<bool> test(size_t* sizes) = 0;
  // 1 for a send, to kMaxGroup for a receive, 0 for a flush, which writes no sizes.
  virtual size_t nBuffers() const { return 1; }
};

// Destroying a connection is legal at any time; buffers of its requests are not touched after.
class Connection {
 public:
  virtual ~Connection() = default;
  // Makes memory known. The token goes back through `memory` of send() and of a Buffer, and may be
  // null.
  virtual Result<void*> registerMemory(void* data, size_t nBytes, MemoryKind kind) = 0;
  // The same of memory whose address only its owner's driver can resolve. `nBytes` is above 0. Only
  // where the device's properties say takesDmabuf.
  virtual Result<void*> registerDmabuf(void* data, size_t nBytes, const Dmabuf& source);
  // From here on the memory is not touched, though requests in it may be under way: NCCL frees it
  // before it closes the connection.
  virtual Result<void> deregisterMemory(void* memory) = 0;
};

class SendConnection : public Connection {
 public:
  virtual Result<Request*> send(const void* data, size_t nBytes, int tag, void* memory) = 0;
  // An error once the peer is known to be gone, for who waits for nothing else that would say so.
  // Moves things on.
  virtual Result<void> check() { return {}; }
};

class ReceiveConnection : public Connection {
 public:
  // One group. The span is the caller's and ends with the call; the memory does not.
  virtual Result<Request*> receive(std::span<const Buffer> buffers) = 0;
  // Makes what was received in device memory visible to the device. `capacity` is how many bytes
  // arrived. A null request: there is nothing to wait for, since a flush cannot be put off. To
  // kMaxRequests * kMaxGroup at a time.
  virtual Result<Request*> flush(std::span<const Buffer>) { return nullptr; }
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual Result<std::unique_ptr<ReceiveConnection>> accept() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const Properties& properties() const = 0;
  // Fills `handle`. A listener is for one connection.
  virtual Result<std::unique_ptr<Listener>> listen(Handle& handle) = 0;
  // `trafficClass`: of the communicator (IP type of service), -1 where it asks for none.
  virtual Result<std::unique_ptr<SendConnection>> connect(Handle& handle, int trafficClass) = 0;
};

inline Result<void*> Connection::registerDmabuf(void* data, size_t nBytes, const Dmabuf&) {
  return errorf(Status::invalidUsage,
                "%zu bytes at %p were offered as a dma-buf, which this device does not take",
                nBytes, data);
}

// The devices of this process, opened at the first call and kept until it ends. Thread-safe.
Result<std::span<Device* const>> devices();

}  // namespace cinch::net
