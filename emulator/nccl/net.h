// The transport that the emulator moves bytes through: the shape of NCCL's net plugin table (v12),
// less what only a GPU needs, so that an adapter can put any plugin behind it.
//
// Rules that both sides keep, as NCCL does:
// - connect and accept never block: they succeed with a null connection, to be called again. The
//   handle given to connect is the caller's own copy and keeps the transport's state between calls.
// - isend and irecv may return a null request: nothing was posted, try later.
// - On one connection the k-th send meets the k-th receive. A send may be smaller than the buffer
//   that was posted for it, never larger.
// - One thread at a time uses a connection. A failing function logs why and returns the class.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/nccl_types.h"

namespace cinch::emulator {

inline constexpr size_t kNetHandleBytes = 128;
inline constexpr int kNetMaxRequests = 32;  // outstanding on one connection
inline constexpr int kNetPointerHost = 1;

struct NetProperties {
  const char* name;     // unique among the transport's devices
  const char* pciPath;  // null where the device is not on PCI
  uint64_t guid;
  int pointerSupport;  // kNetPointerHost
  int regIsGlobal;
  int speedMbps;
  int port;
  float latencyUs;
  int maxComms;
  int maxRecvs;
  size_t maxP2pBytes;
  size_t maxCollBytes;
};

struct NetConfig {
  int trafficClass;  // NCCL_CONFIG_UNDEF_INT: none
};

struct NetTransport {
  const char* name;
  ncclResult_t (*init)(void** context, uint64_t commId, const NetConfig* config);
  ncclResult_t (*devices)(void* context, int* nDevices);
  ncclResult_t (*getProperties)(void* context, int device, NetProperties* properties);
  ncclResult_t (*listen)(void* context, int device, void* handle, void** listener);
  ncclResult_t (*connect)(void* context, int device, void* handle, void** connection);
  ncclResult_t (*accept)(void* listener, void** connection);
  ncclResult_t (*regMr)(void* connection, void* data, size_t nBytes, int type, void** mr);
  ncclResult_t (*deregMr)(void* connection, void* mr);
  ncclResult_t (*isend)(void* connection, const void* data, size_t nBytes, int tag, void* mr,
                        void** request);
  ncclResult_t (*irecv)(void* connection, int n, void** data, const size_t* nBytes, const int* tags,
                        void** mrs, void** request);
  ncclResult_t (*iflush)(void* connection, int n, void** data, const int* nBytes, void** mrs,
                         void** request);
  ncclResult_t (*test)(void* request, int* done, int* nBytes);
  ncclResult_t (*closeSend)(void* connection);
  ncclResult_t (*closeRecv)(void* connection);
  ncclResult_t (*closeListen)(void* listener);
  ncclResult_t (*finalize)(void* context);

  // Not in NCCL's table, null for plugins: the descriptor whose readiness (POLLIN, POLLOUT) lets
  // the oldest request of this connection move, so that a thread can sleep instead of polling
  // blindly.
  void (*pollTarget)(void* connection, int* descriptor, short* events);
};

// Plain TCP, one socket per connection.
const NetTransport& socketTransport();

}  // namespace cinch::emulator
