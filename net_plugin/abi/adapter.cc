#include "net_plugin/abi/adapter.h"

#include <array>
#include <atomic>
#include <exception>
#include <new>

#include "net_plugin/log.h"

namespace cinch::net::abi {
namespace {

std::atomic<ncclDebugLogger_t> ncclLogger{nullptr};

// The INIT flag is what makes NCCL print lines at NCCL_DEBUG=INFO without NCCL_DEBUG_SUBSYS.
void writeToNccl(LogLevel level, const char* function, int line, const char* text) {
  const ncclDebugLogger_t logger = ncclLogger.load(std::memory_order_acquire);
  const bool isWarning = level == LogLevel::warn;
  logger(isWarning ? NCCL_LOG_WARN : NCCL_LOG_INFO, isWarning ? ~0ul : NCCL_LOG_INIT | NCCL_LOG_NET,
         function, line, "%s", text);
}

void useLogger(ncclDebugLogger_t logger) {
  if (logger == nullptr) return;
  ncclLogger.store(logger, std::memory_order_release);
  setLogSink(writeToNccl);
}

ncclResult_t report(const char* function, const Error& error) {
  CINCH_NET_WARN("%s: %s", function, error.message.c_str());
  return static_cast<ncclResult_t>(error.status);
}

// Runs the body of a function of the table.
template <class Body>
ncclResult_t guarded(const char* function, Body body) {
  try {
    const Result<void> result = body();
    return result ? ncclSuccess : report(function, result.error());
  } catch (const std::bad_alloc&) {
    return report(function, {Status::systemError, "out of memory"});
  } catch (const std::exception& exception) {
    return report(function, {Status::internalError, exception.what()});
  } catch (...) {
    return report(function, {Status::internalError, "unknown exception"});
  }
}

Result<void> need(const void* pointer, const char* name) {
  if (pointer != nullptr) return {};
  return errorf(Status::invalidArgument, "%s is NULL", name);
}

// Writes nothing into an output, if there is one.
Result<void> clear(void** output, const char* name) {
  CINCH_TRY(need(output, name));
  *output = nullptr;
  return {};
}

Result<Device*> findDevice(int index) {
  auto all = devices();
  CINCH_TRY(all);
  const int count = static_cast<int>(all.value().size());
  if (index >= 0 && index < count) return all.value()[index];
  return errorf(Status::invalidArgument, "there is no device %d, there are %d", index, count);
}

Result<MemoryKind> memoryKind(int type) {
  if (type == NCCL_PTR_HOST) return MemoryKind::host;
  if (type == NCCL_PTR_CUDA) return MemoryKind::device;
  return errorf(Status::invalidArgument, "memory of type %d is not supported", type);
}

Result<void> checkBuffer(const void* data, int64_t nBytes) {
  if (nBytes < 0 || nBytes > kMaxBytes) {
    return errorf(Status::invalidArgument, "size %lld is not within 0 to %lld",
                  static_cast<long long>(nBytes), static_cast<long long>(kMaxBytes));
  }
  return nBytes == 0 ? Result<void>() : need(data, "data");
}

// Hands an object over to NCCL, which has it until it calls close. As the base that it takes it
// back as: pointers to bases may differ.
template <class Handed, class Owned>
Result<void> handOver(Result<std::unique_ptr<Owned>> owned, void** out) {
  CINCH_TRY(owned);
  *out = static_cast<Handed*>(owned.value().release());
  return {};
}

template <class Kind>
Kind* asKind(void* comm) {
  return static_cast<Kind*>(static_cast<Connection*>(comm));
}

// What a communicator's calls have in common.
struct Context {
  int trafficClass = NCCL_NET_TRAFFIC_CLASS_UNDEF;
};

int trafficClassOf(const ncclNetCommConfig_t* config) {
  return config == nullptr ? NCCL_NET_TRAFFIC_CLASS_UNDEF : config->trafficClass;
}

ncclResult_t connectWith(int index, int trafficClass, void* handle, void** comm,
                         ncclNetDeviceHandle_t** deviceHandle) {
  return guarded("connect", [&]() -> Result<void> {
    CINCH_TRY(clear(comm, "the connection's address"));
    CINCH_TRY(need(handle, "handle"));
    if (deviceHandle != nullptr) *deviceHandle = nullptr;
    const auto device = findDevice(index);
    CINCH_TRY(device);
    auto& bytes = *static_cast<Handle*>(handle);
    return handOver<Connection>(device.value()->connect(bytes, trafficClass), comm);
  });
}

// A size_t that is no int64_t arrives here as a negative number.
ncclResult_t startSend(void* comm, const void* data, int64_t nBytes, int tag, void* memory,
                       void** request) {
  return guarded("isend", [&]() -> Result<void> {
    CINCH_TRY(clear(request, "the request's address"));
    CINCH_TRY(need(comm, "the connection"));
    CINCH_TRY(checkBuffer(data, nBytes));
    const auto sent = asKind<SendConnection>(comm)->send(data, nBytes, tag, memory);
    CINCH_TRY(sent);
    *request = sent.value();
    return {};
  });
}

// What NCCL says in several arrays.
struct Group {
  std::array<Buffer, kMaxGroup> buffers;
  size_t nBuffers = 0;

  std::span<const Buffer> all() const { return {buffers.data(), nBuffers}; }
};

// `tags` and `memories` may be null.
template <class Size>
Result<Group> readGroup(int n, void** data, const Size* sizes, const int* tags, void** memories) {
  if (n < 1 || n > static_cast<int>(kMaxGroup)) {
    return errorf(Status::invalidArgument, "%d buffers at once, they must be 1 to %zu", n,
                  kMaxGroup);
  }
  CINCH_TRY(need(data, "data"));
  CINCH_TRY(need(sizes, "sizes"));
  Group group;
  for (int i = 0; i < n; ++i) {
    const auto nBytes = static_cast<int64_t>(sizes[i]);
    CINCH_TRY(checkBuffer(data[i], nBytes));
    group.buffers[group.nBuffers++] = {data[i], static_cast<size_t>(nBytes),
                                       tags == nullptr ? 0 : tags[i],
                                       memories == nullptr ? nullptr : memories[i]};
  }
  return group;
}

template <class Size>
ncclResult_t startReceive(void* comm, int n, void** data, const Size* sizes, const int* tags,
                          void** memories, void** request) {
  return guarded("irecv", [&]() -> Result<void> {
    CINCH_TRY(clear(request, "the request's address"));
    CINCH_TRY(need(comm, "the connection"));
    const auto group = readGroup(n, data, sizes, tags, memories);
    CINCH_TRY(group);
    const auto posted = asKind<ReceiveConnection>(comm)->receive(group.value().all());
    CINCH_TRY(posted);
    *request = posted.value();
    return {};
  });
}

}  // namespace

ncclResult_t initPlugin(ncclDebugLogger_t logger) {
  useLogger(logger);
  return ncclSuccess;
}

ncclResult_t initPluginV10(ncclDebugLogger_t logger, ncclProfilerCallback_t) {
  return initPlugin(logger);
}

ncclResult_t initCommunicatorV11(void** context, uint64_t commId, ncclNetCommConfig_t* config,
                                 ncclDebugLogger_t logger, ncclProfilerCallback_t) {
  useLogger(logger);
  return guarded("init", [&]() -> Result<void> {
    CINCH_TRY(clear(context, "the context's address"));
    *context = new Context{trafficClassOf(config)};
    CINCH_NET_INFO("communicator %#llx, traffic class %d", static_cast<unsigned long long>(commId),
                   trafficClassOf(config));
    return {};
  });
}

ncclResult_t finalizeCommunicatorV11(void* context) {
  delete static_cast<Context*>(context);
  return ncclSuccess;
}

ncclResult_t ignoreAttributesV11(void*, ncclNetAttr_t*) {
  return ncclSuccess;
}

ncclResult_t countDevices(int* count) {
  return guarded("devices", [&]() -> Result<void> {
    CINCH_TRY(need(count, "the count's address"));
    const auto all = devices();
    *count = all ? static_cast<int>(all.value().size()) : 0;
    if (!all) CINCH_NET_WARN("no device can be used: %s", all.error().message.c_str());
    return {};
  });
}

ncclResult_t findProperties(int index, const void* out, const Properties** properties) {
  return guarded("getProperties", [&]() -> Result<void> {
    CINCH_TRY(need(out, "the properties' address"));
    const auto device = findDevice(index);
    CINCH_TRY(device);
    *properties = &device.value()->properties();
    return {};
  });
}

ncclResult_t listenOn(int index, void* handle, void** listener) {
  return guarded("listen", [&]() -> Result<void> {
    CINCH_TRY(clear(listener, "the listener's address"));
    CINCH_TRY(need(handle, "handle"));
    const auto device = findDevice(index);
    CINCH_TRY(device);
    auto& bytes = *static_cast<Handle*>(handle);
    bytes = {};
    return handOver<Listener>(device.value()->listen(bytes), listener);
  });
}

ncclResult_t listenOnV11(void*, int index, void* handle, void** listener) {
  return listenOn(index, handle, listener);
}

ncclResult_t connectFrom(int index, void* handle, void** comm,
                         ncclNetDeviceHandle_t** deviceHandle) {
  return connectWith(index, NCCL_NET_TRAFFIC_CLASS_UNDEF, handle, comm, deviceHandle);
}

ncclResult_t connectFromV10(int index, ncclNetCommConfig_t* config, void* handle, void** comm,
                            ncclNetDeviceHandle_t** deviceHandle) {
  return connectWith(index, trafficClassOf(config), handle, comm, deviceHandle);
}

ncclResult_t connectFromV11(void* context, int index, void* handle, void** comm,
                            ncclNetDeviceHandle_t** deviceHandle) {
  const Context none;
  const Context& known = context == nullptr ? none : *static_cast<const Context*>(context);
  return connectWith(index, known.trafficClass, handle, comm, deviceHandle);
}

ncclResult_t acceptFrom(void* listener, void** comm, ncclNetDeviceHandle_t** deviceHandle) {
  return guarded("accept", [&]() -> Result<void> {
    CINCH_TRY(clear(comm, "the connection's address"));
    CINCH_TRY(need(listener, "the listener"));
    if (deviceHandle != nullptr) *deviceHandle = nullptr;
    return handOver<Connection>(static_cast<Listener*>(listener)->accept(), comm);
  });
}

ncclResult_t registerMemory(void* comm, void* data, size_t nBytes, int type, void** memory) {
  return guarded("regMr", [&]() -> Result<void> {
    CINCH_TRY(clear(memory, "the token's address"));
    CINCH_TRY(need(comm, "the connection"));
    const auto kind = memoryKind(type);
    CINCH_TRY(kind);
    if (nBytes > 0) CINCH_TRY(need(data, "data"));
    const auto token = static_cast<Connection*>(comm)->registerMemory(data, nBytes, kind.value());
    CINCH_TRY(token);
    *memory = token.value();
    return {};
  });
}

ncclResult_t registerDmabuf(void* comm, void* data, size_t nBytes, int type, uint64_t offset,
                            int descriptor, void** memory) {
  return guarded("regMrDmaBuf", [&]() -> Result<void> {
    CINCH_TRY(clear(memory, "the token's address"));
    CINCH_TRY(need(comm, "the connection"));
    CINCH_TRY(memoryKind(type));
    CINCH_TRY(need(data, "data"));
    if (nBytes == 0 || descriptor < 0) {
      return errorf(Status::invalidArgument, "%zu bytes of descriptor %d are no dma-buf", nBytes,
                    descriptor);
    }
    const Dmabuf source = {descriptor, offset};
    const auto token = static_cast<Connection*>(comm)->registerDmabuf(data, nBytes, source);
    CINCH_TRY(token);
    *memory = token.value();
    return {};
  });
}

ncclResult_t deregisterMemory(void* comm, void* memory) {
  return guarded("deregMr", [&]() -> Result<void> {
    CINCH_TRY(need(comm, "the connection"));
    return static_cast<Connection*>(comm)->deregisterMemory(memory);
  });
}

ncclResult_t sendV8(void* comm, void* data, int nBytes, int tag, void* memory, void** request) {
  return startSend(comm, data, nBytes, tag, memory, request);
}

ncclResult_t sendV9(void* comm, void* data, size_t nBytes, int tag, void* memory, void** request) {
  return startSend(comm, data, static_cast<int64_t>(nBytes), tag, memory, request);
}

ncclResult_t sendV10(void* comm, void* data, size_t nBytes, int tag, void* memory, void*,
                     void** request) {
  return sendV9(comm, data, nBytes, tag, memory, request);
}

ncclResult_t receiveV8(void* comm, int n, void** data, int* sizes, int* tags, void** memories,
                       void** request) {
  return startReceive(comm, n, data, sizes, tags, memories, request);
}

ncclResult_t receiveV9(void* comm, int n, void** data, size_t* sizes, int* tags, void** memories,
                       void** request) {
  return startReceive(comm, n, data, sizes, tags, memories, request);
}

ncclResult_t receiveV10(void* comm, int n, void** data, size_t* sizes, int* tags, void** memories,
                        void**, void** request) {
  return receiveV9(comm, n, data, sizes, tags, memories, request);
}

ncclResult_t flushReceived(void* comm, int n, void** data, int* sizes, void** memories,
                           void** request) {
  return guarded("iflush", [&]() -> Result<void> {
    CINCH_TRY(clear(request, "the request's address"));
    CINCH_TRY(need(comm, "the connection"));
    const auto group = readGroup(n, data, sizes, nullptr, memories);
    CINCH_TRY(group);
    const auto flushing = asKind<ReceiveConnection>(comm)->flush(group.value().all());
    CINCH_TRY(flushing);
    *request = flushing.value();
    return {};
  });
}

ncclResult_t testRequest(void* handle, int* done, int* sizes) {
  return guarded("test", [&]() -> Result<void> {
    CINCH_TRY(need(done, "done"));
    *done = 0;
    CINCH_TRY(need(handle, "the request"));
    Request& request = *static_cast<Request*>(handle);
    const size_t nBuffers = request.nBuffers();  // not to be asked once it is done
    std::array<size_t, kMaxGroup> moved{};
    const auto isDone = request.test(moved.data());
    CINCH_TRY(isDone);
    *done = isDone.value();
    if (!isDone.value() || sizes == nullptr) return {};
    std::transform(moved.begin(), moved.begin() + nBuffers, sizes,
                   [](size_t nBytes) { return static_cast<int>(nBytes); });
    return {};
  });
}

ncclResult_t closeConnection(void* comm) {
  delete static_cast<Connection*>(comm);
  return ncclSuccess;
}

ncclResult_t closeListener(void* listener) {
  delete static_cast<Listener*>(listener);
  return ncclSuccess;
}

}  // namespace cinch::net::abi
