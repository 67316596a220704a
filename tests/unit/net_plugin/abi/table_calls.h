// The functions of NCCL's tables, called the same way whatever the version.
#pragma once

#include <type_traits>

#include "net_plugin/abi/tables.h"

namespace cinch::net {

template <int version>
struct VersionOf;
#define CINCH_VERSION(number)                                       \
  template <>                                                       \
  struct VersionOf<number> {                                        \
    using Table = ncclNet_v##number##_t;                            \
    using Properties = ncclNetProperties_v##number##_t;             \
    static const Table& table() { return ncclNetPlugin_v##number; } \
  }
CINCH_VERSION(8);
CINCH_VERSION(9);
CINCH_VERSION(10);
CINCH_VERSION(11);
CINCH_VERSION(12);
#undef CINCH_VERSION

template <int version>
struct Calls {
  using Properties = typename VersionOf<version>::Properties;
  using Size = std::conditional_t<version == 8, int, size_t>;

  static const auto& table() { return VersionOf<version>::table(); }

  // `context` is left alone where the version has none.
  static ncclResult_t init(ncclDebugLogger_t logger, int trafficClass, void** context) {
    if constexpr (version >= 11) {
      ncclNetCommConfig_t config = {trafficClass};
      return table().init(context, 77, &config, logger, nullptr);
    } else if constexpr (version == 10) {
      return table().init(logger, nullptr);
    } else {
      return table().init(logger);
    }
  }
  static ncclResult_t finalize(void* context) {
    if constexpr (version >= 11) return table().finalize(context);
    return ncclSuccess;
  }
  static ncclResult_t listen(void* context, int dev, void* handle, void** listener) {
    if constexpr (version >= 11) {
      return table().listen(context, dev, handle, listener);
    } else {
      return table().listen(dev, handle, listener);
    }
  }
  static ncclResult_t connect(void* context, int dev, int trafficClass, void* handle, void** comm,
                              ncclNetDeviceHandle_t** deviceHandle = nullptr) {
    if constexpr (version >= 11) {
      return table().connect(context, dev, handle, comm, deviceHandle);
    } else if constexpr (version == 10) {
      ncclNetCommConfig_t config = {trafficClass};
      return table().connect(dev, &config, handle, comm, deviceHandle);
    } else {
      return table().connect(dev, handle, comm, deviceHandle);
    }
  }
  static ncclResult_t isend(void* comm, void* data, Size size, void* memory, void** request,
                            int tag = 5) {
    if constexpr (version >= 10) {
      return table().isend(comm, data, size, tag, memory, nullptr, request);
    } else {
      return table().isend(comm, data, size, tag, memory, request);
    }
  }
  static ncclResult_t irecv(void* comm, int n, void** data, Size* sizes, int* tags, void** memories,
                            void** request) {
    if constexpr (version >= 10) {
      return table().irecv(comm, n, data, sizes, tags, memories, nullptr, request);
    } else {
      return table().irecv(comm, n, data, sizes, tags, memories, request);
    }
  }
  static ncclResult_t irecv(void* comm, void* data, Size size, void* memory, void** request) {
    int tag = 5;
    return irecv(comm, 1, &data, &size, &tag, &memory, request);
  }
};

}  // namespace cinch::net
