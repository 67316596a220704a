#include "emulator/nccl/net_plugin.h"

#include <memory>

#include "emulator/nccl/debug.h"
#include "net_plugin/abi/net_v10.h"
#include "net_plugin/abi/net_v11.h"
#include "net_plugin/abi/net_v12.h"
#include "net_plugin/abi/net_v8.h"
#include "net_plugin/abi/net_v9.h"

namespace cinch::emulator {
namespace {

// What NCCL takes for the largest message of plugins that cannot say it, and refuses beyond.
constexpr size_t kUnstatedMaxBytes = size_t{1} << 30;

template <int version>
struct Abi;

template <>
struct Abi<8> {
  using Table = ncclNet_v8_t;
  using Properties = ncclNetProperties_v8_t;
  using Size = int;
  static constexpr const char* kSymbol = "ncclNetPlugin_v8";
};

template <>
struct Abi<9> {
  using Table = ncclNet_v9_t;
  using Properties = ncclNetProperties_v9_t;
  using Size = size_t;
  static constexpr const char* kSymbol = "ncclNetPlugin_v9";
};

template <>
struct Abi<10> {
  using Table = ncclNet_v10_t;
  using Properties = ncclNetProperties_v10_t;
  using Size = size_t;
  static constexpr const char* kSymbol = "ncclNetPlugin_v10";
};

template <>
struct Abi<11> {
  using Table = ncclNet_v11_t;
  using Properties = ncclNetProperties_v11_t;
  using Size = size_t;
  static constexpr const char* kSymbol = "ncclNetPlugin_v11";
};

template <>
struct Abi<12> {
  using Table = ncclNet_v12_t;
  using Properties = ncclNetProperties_v12_t;
  using Size = size_t;
  static constexpr const char* kSymbol = "ncclNetPlugin_v12";
};

// Nothing is profiled: plugins see that by an event that stays null.
ncclResult_t ignoreEvent(void**, int, void*, int64_t, void*) {
  return ncclSuccess;
}

template <int version>
class NetPlugin final : public NetTransport {
 public:
  using Table = typename Abi<version>::Table;
  using Size = typename Abi<version>::Size;

  explicit NetPlugin(const Table& table) : table_(table) {}

  const char* name() const override { return table_.name; }

  // Before version 11 a plugin knows nothing of communicators: only the first of those that exist
  // at a time starts it. Version 10 is told the traffic class at every connect, so the context
  // keeps it.
  ncclResult_t init(void** context, uint64_t commId, int trafficClass) override {
    auto config = std::make_unique<ncclNetCommConfig_t>(ncclNetCommConfig_t{trafficClass});
    if constexpr (version >= 11) {
      return table_.init(context, commId, config.get(), logPluginLine, ignoreEvent);
    } else {
      if (nCommunicators_ == 0) {
        if (const ncclResult_t result = start(); result != ncclSuccess) return result;
      }
      ++nCommunicators_;
      *context = config.release();
      return ncclSuccess;
    }
  }

  ncclResult_t finalize(void* context) override {
    if constexpr (version >= 11) {
      return table_.finalize(context);
    } else {
      delete static_cast<ncclNetCommConfig_t*>(context);
      --nCommunicators_;
      return ncclSuccess;
    }
  }

  ncclResult_t devices(int* nDevices) override { return table_.devices(nDevices); }

  ncclResult_t getProperties(int device, NetProperties* properties) override {
    typename Abi<version>::Properties given{};
    const ncclResult_t result = table_.getProperties(device, &given);
    if (result != ncclSuccess) return result;
    properties->name = given.name == nullptr ? "" : given.name;
    properties->pointerSupport = given.ptrSupport;
    properties->speedMbps = given.speed;
    properties->maxRecvs = given.maxRecvs;
    properties->deviceType = given.netDeviceType;
    if constexpr (version >= 9) {
      properties->maxP2pBytes = given.maxP2pBytes;
    } else {
      properties->maxP2pBytes = kUnstatedMaxBytes;
    }
    return ncclSuccess;
  }

  ncclResult_t listen(void* context, int device, void* handle, void** listener) override {
    if constexpr (version >= 11) {
      return table_.listen(context, device, handle, listener);
    } else {
      return table_.listen(device, handle, listener);
    }
  }

  ncclResult_t connect(void* context, int device, void* handle, void** connection) override {
    ncclNetDeviceHandle_t* offload = nullptr;
    if constexpr (version >= 11) {
      return table_.connect(context, device, handle, connection, &offload);
    } else if constexpr (version == 10) {
      auto* config = static_cast<ncclNetCommConfig_t*>(context);
      return table_.connect(device, config, handle, connection, &offload);
    } else {
      return table_.connect(device, handle, connection, &offload);
    }
  }

  ncclResult_t accept(void* listener, void** connection) override {
    ncclNetDeviceHandle_t* offload = nullptr;
    return table_.accept(listener, connection, &offload);
  }

  ncclResult_t regMr(void* connection, void* data, size_t nBytes, int type, void** mr) override {
    return table_.regMr(connection, data, nBytes, type, mr);
  }

  ncclResult_t deregMr(void* connection, void* mr) override {
    return table_.deregMr(connection, mr);
  }

  ncclResult_t isend(void* connection, const void* data, size_t nBytes, int tag, void* mr,
                     void** request) override {
    if (!fits(nBytes)) return ncclInternalError;
    void* source = const_cast<void*>(data);  // plugins only read it
    const Size size = static_cast<Size>(nBytes);
    if constexpr (version >= 10) {
      return table_.isend(connection, source, size, tag, mr, nullptr, request);
    } else {
      return table_.isend(connection, source, size, tag, mr, request);
    }
  }

  ncclResult_t irecv(void* connection, void* data, size_t nBytes, int tag, void* mr,
                     void** request) override {
    if (!fits(nBytes)) return ncclInternalError;
    Size size = static_cast<Size>(nBytes);
    if constexpr (version >= 10) {
      void* event = nullptr;
      return table_.irecv(connection, 1, &data, &size, &tag, &mr, &event, request);
    } else {
      return table_.irecv(connection, 1, &data, &size, &tag, &mr, request);
    }
  }

  ncclResult_t test(void* request, int* done, int* nBytes) override {
    return table_.test(request, done, nBytes);
  }

  ncclResult_t closeSend(void* connection) override { return table_.closeSend(connection); }
  ncclResult_t closeRecv(void* connection) override { return table_.closeRecv(connection); }
  ncclResult_t closeListen(void* listener) override { return table_.closeListen(listener); }

 private:
  ncclResult_t start() {
    if constexpr (version == 10) {
      return table_.init(logPluginLine, ignoreEvent);
    } else {
      return table_.init(logPluginLine);
    }
  }

  static bool fits(size_t nBytes) { return version >= 9 || nBytes <= kUnstatedMaxBytes; }

  const Table& table_;
  int nCommunicators_ = 0;  // that have started and not finished; for versions before 11
};

template <int version>
std::unique_ptr<NetTransport> adapt(const SymbolLookup& lookup) {
  const auto* table =
      static_cast<const typename Abi<version>::Table*>(lookup(Abi<version>::kSymbol));
  if (table == nullptr) return nullptr;
  logInfo("NET/Plugin: Loaded net plugin %s (v%d)", table->name, version);
  return std::make_unique<NetPlugin<version>>(*table);
}

}  // namespace

std::unique_ptr<NetTransport> adaptNetPlugin(const SymbolLookup& lookup) {
  const auto adapters = {adapt<12>, adapt<11>, adapt<10>, adapt<9>, adapt<8>};
  for (const auto& adapter : adapters) {
    if (auto transport = adapter(lookup)) return transport;
  }
  return nullptr;
}

}  // namespace cinch::emulator
