// The transport that the emulator moves bytes through: what NCCL's net plugin tables have in
// common, less what only a GPU needs, so that plugins and the built-in sockets look alike.
//
// Rules that both sides keep, as NCCL does:
// - Two threads use a communicator's connections: a service thread listens, connects, accepts,
//   registers memory and closes; a progress thread sends, receives and tests, from when a
//   connection is ready until the thread has ended. One thread at a time uses a connection. Nothing
//   blocks.
// - connect and accept succeed with a null connection, to be called again. The handle given to
//   connect is the caller's own copy and keeps the transport's state between calls.
// - isend and irecv may return a null request: nothing was posted, try later.
// - On one connection the k-th send meets the k-th receive. A send may be smaller than the buffer
//   that was posted for it, never larger. Only the oldest request is tested.
// - A connection may be closed while requests are outstanding. A failing function logs why and
//   returns the class.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/nccl_types.h"

namespace cinch::emulator {

inline constexpr size_t kNetHandleBytes = 128;
inline constexpr int kNetMaxRequests = 32;  // outstanding on one connection
inline constexpr int kNetPointerHost = 1;
inline constexpr int kNetDeviceHost = 0;  // no offload to a device
inline constexpr int kNetNoTrafficClass = -1;
inline constexpr size_t kNetMaxBytes = size_t{1} << 40;  // that properties may name

struct NetProperties {
  std::string name;  // unique among the transport's devices
  int pointerSupport = kNetPointerHost;
  int speedMbps = 0;
  int maxRecvs = 1;
  int deviceType = kNetDeviceHost;
  size_t maxP2pBytes = kNetMaxBytes;
};

// Shared by all communicators of the process; each has its own context.
class NetTransport {
 public:
  virtual ~NetTransport() = default;

  virtual const char* name() const = 0;
  // `trafficClass`: kNetNoTrafficClass where none is asked for.
  virtual ncclResult_t init(void** context, uint64_t commId, int trafficClass) = 0;
  virtual ncclResult_t devices(int* nDevices) = 0;
  virtual ncclResult_t getProperties(int device, NetProperties* properties) = 0;
  virtual ncclResult_t listen(void* context, int device, void* handle, void** listener) = 0;
  virtual ncclResult_t connect(void* context, int device, void* handle, void** connection) = 0;
  virtual ncclResult_t accept(void* listener, void** connection) = 0;
  virtual ncclResult_t regMr(void* connection, void* data, size_t nBytes, int type, void** mr) = 0;
  virtual ncclResult_t deregMr(void* connection, void* mr) = 0;
  virtual ncclResult_t isend(void* connection, const void* data, size_t nBytes, int tag, void* mr,
                             void** request) = 0;
  virtual ncclResult_t irecv(void* connection, void* data, size_t nBytes, int tag, void* mr,
                             void** request) = 0;
  virtual ncclResult_t test(void* request, int* done, int* nBytes) = 0;
  virtual ncclResult_t closeSend(void* connection) = 0;
  virtual ncclResult_t closeRecv(void* connection) = 0;
  virtual ncclResult_t closeListen(void* listener) = 0;
  virtual ncclResult_t finalize(void* context) = 0;

  // Not in NCCL's tables: whether there are descriptors to sleep on instead of polling blindly, and
  // the one whose readiness (POLLIN, POLLOUT) lets the oldest request of this connection move.
  virtual bool isPollable() const { return false; }
  virtual pollfd pollTarget(void* /*connection*/) const { return {-1, 0, 0}; }
};

// Plain TCP, one socket per connection.
std::unique_ptr<NetTransport> makeSocketTransport();

}  // namespace cinch::emulator
