// The table of one version, TRIVIAL_NET_VERSION (8 to 12).
//
// TRIVIAL_NET_FAULT in the environment: "init" lets init fail, "devices" finds no device, "offload"
// one of an unknown type, "limit" one that takes no bytes (version 9 and later).
#include <cstring>
#include <list>
#include <mutex>
#include <utility>

#include "common/param.h"
#include "net_plugin/abi/net_v10.h"
#include "net_plugin/abi/net_v11.h"
#include "net_plugin/abi/net_v12.h"
#include "net_plugin/abi/net_v8.h"
#include "net_plugin/abi/net_v9.h"
#include "tests/net/trivial/connection.h"

#define TRIVIAL_NET_PASTE_(prefix, version, suffix) prefix##version##suffix
#define TRIVIAL_NET_PASTE(prefix, version, suffix) TRIVIAL_NET_PASTE_(prefix, version, suffix)
#define TRIVIAL_NET_QUOTE_(text) #text
#define TRIVIAL_NET_QUOTE(text) TRIVIAL_NET_QUOTE_(text)

namespace cinch::trivial {
namespace {

using Table = TRIVIAL_NET_PASTE(ncclNet_v, TRIVIAL_NET_VERSION, _t);
using Properties = TRIVIAL_NET_PASTE(ncclNetProperties_v, TRIVIAL_NET_VERSION, _t);
#if TRIVIAL_NET_VERSION == 8
using Size = int;
#else
using Size = size_t;
#endif

constexpr char kName[] = "Trivial_v" TRIVIAL_NET_QUOTE(TRIVIAL_NET_VERSION);

// What is open in this process: all must be closed before it ends.
std::atomic<int> nContexts{0};
std::atomic<int> nOpen{0};  // listeners and connections

// Those that connect() has begun; some are never asked for again.
std::mutex openingMutex;
std::list<std::unique_ptr<Connection>> opening;

bool hasFault(const char* fault) {
  const char* wanted = environmentVariable("TRIVIAL_NET_FAULT");
  return wanted != nullptr && strcmp(wanted, fault) == 0;
}

ncclResult_t start(ncclDebugLogger_t logger) {
  setLogger(logger);
  if (hasFault("init")) return ncclSystemError;
  logInfo("started");
  return ncclSuccess;
}

ncclResult_t devices(int* nDevices) {
  *nDevices = hasFault("devices") ? 0 : 1;
  return ncclSuccess;
}

ncclResult_t getProperties(int device, Properties* properties) {
  if (device != 0) return breach("getProperties of device %d", device);
  static char name[] = "trivial0";
  *properties = {};
  properties->name = name;
  properties->ptrSupport = NCCL_PTR_HOST;
  properties->speed = 10000;
  properties->maxComms = 1024;
  properties->maxRecvs = kMaxGroup;
  properties->netDeviceType = hasFault("offload") ? 99 : NCCL_NET_DEVICE_HOST;
#if TRIVIAL_NET_VERSION >= 9
  properties->vProps.ndevs = 1;
  properties->maxP2pBytes = hasFault("limit") ? 0 : kMaxBytes;
  properties->maxCollBytes = kMaxBytes;
#endif
#if TRIVIAL_NET_VERSION >= 11
  properties->maxMultiRequestSize = 1;
#endif
#if TRIVIAL_NET_VERSION >= 12
  properties->railId = NCCL_NET_ID_UNDEF;
  properties->planeId = NCCL_NET_ID_UNDEF;
#endif
  return ncclSuccess;
}

ncclResult_t listen(int device, void* handle, void** out) {
  *out = nullptr;
  if (device != 0) return breach("listen on device %d", device);
  Handle made{};
  std::unique_ptr<Listener> listener = Listener::open(&made);
  if (listener == nullptr) return ncclSystemError;
  memcpy(handle, &made, sizeof made);
  nOpen.fetch_add(1);
  *out = listener.release();
  return ncclSuccess;
}

// A handle must be the same memory in all calls of one connect: otherwise it would begin twice.
ncclResult_t begin(Handle& handle) {
  std::lock_guard lock(openingMutex);
  for (const std::unique_ptr<Connection>& other : opening) {
    if (other->nonce() == handle.nonce) return breach("connect lost what it kept in the handle");
  }
  std::unique_ptr<Connection> connection = beginConnect(handle);
  if (connection == nullptr) return ncclRemoteError;
  handle.opening = connection.get();
  opening.push_back(std::move(connection));
  return ncclSuccess;
}

std::unique_ptr<Connection> takeOpening(const Connection& connection) {
  std::lock_guard lock(openingMutex);
  for (auto it = opening.begin(); it != opening.end(); ++it) {
    if (it->get() != &connection) continue;
    std::unique_ptr<Connection> taken = std::move(*it);
    opening.erase(it);
    return taken;
  }
  return nullptr;
}

ncclResult_t connect(int device, void* handleBytes, void** out) {
  *out = nullptr;
  if (device != 0) return breach("connect on device %d", device);
  Handle& handle = *static_cast<Handle*>(handleBytes);
  if (handle.opening == nullptr) {
    if (const ncclResult_t result = begin(handle); result != ncclSuccess) return result;
  }
  bool done = false;
  const ncclResult_t result = handle.opening->open(&done);
  if (result == ncclSuccess && !done) return ncclSuccess;
  std::unique_ptr<Connection> ended = takeOpening(*std::exchange(handle.opening, nullptr));
  if (result != ncclSuccess) return result;
  nOpen.fetch_add(1);
  *out = ended.release();
  return ncclSuccess;
}

ncclResult_t accept(void* listener, void** out, ncclNetDeviceHandle_t**) {
  *out = nullptr;
  std::unique_ptr<Connection> connection;
  const ncclResult_t result = static_cast<Listener*>(listener)->accept(&connection);
  if (connection != nullptr) nOpen.fetch_add(1);
  *out = connection.release();
  return result;
}

Connection& connectionOf(void* comm) {
  return *static_cast<Connection*>(comm);
}

ncclResult_t regMr(void* comm, void* data, size_t nBytes, int type, void** token) {
  *token = nullptr;
  Connection& connection = connectionOf(comm);
  const ncclResult_t result = connection.threads().checkService("regMr");
  if (result != ncclSuccess) return result;
  return connection.memory().add(static_cast<char*>(data), nBytes, type, token);
}

ncclResult_t regMrDmaBuf(void*, void*, size_t, int, uint64_t, int, void**) {
  return breach("regMrDmaBuf, which was not offered");
}

ncclResult_t deregMr(void* comm, void* token) {
  Connection& connection = connectionOf(comm);
  const ncclResult_t result = connection.threads().checkService("deregMr");
  return result == ncclSuccess ? connection.memory().remove(token) : result;
}

ncclResult_t isend(void* comm, void* data, Size size, int tag, void* token, void** request) {
  *request = nullptr;
  if (static_cast<int64_t>(size) < 0) return breach("isend of a negative size");
  const Buffer buffer = {static_cast<char*>(data), static_cast<size_t>(size), tag, token};
  return connectionOf(comm).post({&buffer, 1}, reinterpret_cast<Request**>(request));
}

ncclResult_t irecv(void* comm, int n, void** data, Size* sizes, int* tags, void** tokens,
                   void** request) {
  *request = nullptr;  // it may hold anything
  if (n < 1 || n > kMaxGroup) return breach("irecv of %d buffers", n);
  std::array<Buffer, kMaxGroup> buffers;
  for (int i = 0; i < n; ++i) {
    if (static_cast<int64_t>(sizes[i]) < 0) return breach("irecv of a negative size");
    buffers[i] = {static_cast<char*>(data[i]), static_cast<size_t>(sizes[i]), tags[i], tokens[i]};
  }
  return connectionOf(comm).post({buffers.data(), static_cast<size_t>(n)},
                                 reinterpret_cast<Request**>(request));
}

ncclResult_t iflush(void*, int, void**, int*, void**, void**) {
  return breach("iflush, where there is no device memory");
}

ncclResult_t test(void* handle, int* done, int* sizes) {
  *done = 0;
  if (handle == nullptr) return breach("test of no request");
  Request& request = *static_cast<Request*>(handle);
  bool complete = false;
  const ncclResult_t result = request.connection->test(request, &complete);
  if (result != ncclSuccess || !complete) return result;
  *done = 1;
  if (sizes == nullptr) return ncclSuccess;
  for (int i = 0; i < request.nBuffers(); ++i) {
    sizes[i] = static_cast<int>(request.buffers[i].nBytes);
  }
  return ncclSuccess;
}

// Legal with requests in flight.
ncclResult_t closeConnection(void* comm) {
  const std::unique_ptr<Connection> connection(static_cast<Connection*>(comm));
  nOpen.fetch_sub(1);
  if (connection->memory().count() != 0) return breach("close with memory still registered");
  return connection->threads().checkService("close");
}

ncclResult_t closeListen(void* listener) {
  delete static_cast<Listener*>(listener);
  nOpen.fetch_sub(1);
  return ncclSuccess;
}

#if TRIVIAL_NET_VERSION >= 11

struct Context {
  int trafficClass;
};

ncclResult_t init(void** context, uint64_t, ncclNetCommConfig_t* config, ncclDebugLogger_t logger,
                  ncclProfilerCallback_t) {
  if (const ncclResult_t result = start(logger); result != ncclSuccess) return result;
  nContexts.fetch_add(1);
  *context = new Context{config->trafficClass};
  return ncclSuccess;
}

ncclResult_t finalize(void* context) {
  if (context == nullptr) return breach("finalize without a context");
  delete static_cast<Context*>(context);
  const bool isLast = nContexts.fetch_sub(1) == 1;
  if (isLast && nOpen.load() != 0) return breach("the last finalize with %d open", nOpen.load());
  return ncclSuccess;
}

ncclResult_t listenIn(void* context, int device, void* handle, void** listener) {
  if (context == nullptr) return breach("listen without a context");
  return listen(device, handle, listener);
}

ncclResult_t connectIn(void* context, int device, void* handle, void** comm,
                       ncclNetDeviceHandle_t**) {
  if (context == nullptr) return breach("connect without a context");
  return connect(device, handle, comm);
}

ncclResult_t setNetAttr(void*, ncclNetAttr_t*) {
  return ncclSuccess;
}

#else

ncclResult_t listenIn(int device, void* handle, void** listener) {
  return listen(device, handle, listener);
}

// These versions know nothing of communicators: init is for the process.
ncclResult_t startOnce(ncclDebugLogger_t logger) {
  if (nOpen.load() != 0) return breach("init with %d open", nOpen.load());
  return start(logger);
}

#if TRIVIAL_NET_VERSION == 10

ncclResult_t init(ncclDebugLogger_t logger, ncclProfilerCallback_t) {
  return startOnce(logger);
}

ncclResult_t connectIn(int device, ncclNetCommConfig_t* config, void* handle, void** comm,
                       ncclNetDeviceHandle_t**) {
  if (config == nullptr) return breach("connect without a configuration");
  return connect(device, handle, comm);
}

#else

ncclResult_t init(ncclDebugLogger_t logger) {
  return startOnce(logger);
}

ncclResult_t connectIn(int device, void* handle, void** comm, ncclNetDeviceHandle_t**) {
  return connect(device, handle, comm);
}

#endif
#endif

#if TRIVIAL_NET_VERSION >= 10

ncclResult_t isendIn(void* comm, void* data, size_t size, int tag, void* token, void*,
                     void** request) {
  return isend(comm, data, size, tag, token, request);
}

ncclResult_t irecvIn(void* comm, int n, void** data, size_t* sizes, int* tags, void** tokens,
                     void**, void** request) {
  return irecv(comm, n, data, sizes, tags, tokens, request);
}

#else

constexpr auto isendIn = isend;
constexpr auto irecvIn = irecv;

#endif

constexpr Table makeTable() {
  Table table{};
  table.name = kName;
  table.init = init;
  table.devices = devices;
  table.getProperties = getProperties;
  table.listen = listenIn;
  table.connect = connectIn;
  table.accept = accept;
  table.regMr = regMr;
  table.regMrDmaBuf = regMrDmaBuf;
  table.deregMr = deregMr;
  table.isend = isendIn;
  table.irecv = irecvIn;
  table.iflush = iflush;
  table.test = test;
  table.closeSend = closeConnection;
  table.closeRecv = closeConnection;
  table.closeListen = closeListen;
#if TRIVIAL_NET_VERSION >= 11
  table.finalize = finalize;
  table.setNetAttr = setNetAttr;
#endif
  return table;
}

}  // namespace
}  // namespace cinch::trivial

extern "C" [[gnu::visibility("default")]] const cinch::trivial::Table TRIVIAL_NET_PASTE(
    ncclNetPlugin_v, TRIVIAL_NET_VERSION, ) = cinch::trivial::makeTable();
