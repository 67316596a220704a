// What the tables of all versions share: net_plugin/net.h behind NCCL's calling convention.
//
// Nothing is thrown at NCCL. A failure is logged here, once, and becomes an ncclResult_t; outputs
// are written whatever happens, since NCCL may hand over a slot that still holds something (with an
// optional receive completion, a 1): a request, connection or token that is not there is null.
//
// A `comm` that NCCL holds is a Connection*, whether it sends or receives, because regMr and
// deregMr take either.
#pragma once

#include <algorithm>
#include <cstdint>

#include "net_plugin/abi/net_common.h"
#include "net_plugin/net.h"

namespace cinch::net::abi {

// What NCCL_NET has to name for this plugin.
inline constexpr const char* kPluginName = "Cinch";

// The largest message in every version: test() reports sizes in an int.
inline constexpr int64_t kMaxBytes = int64_t{1} << 30;

// The functions below have the signatures that the tables ask for; where versions differ, the name
// or the comment says from which on.

// v8, v9: NCCL calls it at least once, and again after its last communicator is gone. It cannot
// fail: several releases end the process where it does.
ncclResult_t initPlugin(ncclDebugLogger_t logger);
ncclResult_t initPluginV10(ncclDebugLogger_t logger, ncclProfilerCallback_t profiler);
// For each communicator; the context carries what connect must know. A null context is one that was
// never made: some releases finalize what failed to start.
ncclResult_t initCommunicatorV11(void** context, uint64_t commId, ncclNetCommConfig_t* config,
                                 ncclDebugLogger_t logger, ncclProfilerCallback_t profiler);
ncclResult_t finalizeCommunicatorV11(void* context);
ncclResult_t ignoreAttributesV11(void* context, ncclNetAttr_t* attributes);

// No usable device is no error: NCCL then takes the next plugin.
ncclResult_t countDevices(int* count);

ncclResult_t listenOn(int index, void* handle, void** listener);
ncclResult_t listenOnV11(void* context, int index, void* handle, void** listener);
ncclResult_t connectFrom(int index, void* handle, void** comm,
                         ncclNetDeviceHandle_t** deviceHandle);
ncclResult_t connectFromV10(int index, ncclNetCommConfig_t* config, void* handle, void** comm,
                            ncclNetDeviceHandle_t** deviceHandle);
ncclResult_t connectFromV11(void* context, int index, void* handle, void** comm,
                            ncclNetDeviceHandle_t** deviceHandle);
ncclResult_t acceptFrom(void* listener, void** comm, ncclNetDeviceHandle_t** deviceHandle);

ncclResult_t registerMemory(void* comm, void* data, size_t nBytes, int type, void** memory);
// `data` is the address that messages will name; `offset` bytes into the dma-buf `descriptor`.
ncclResult_t registerDmabuf(void* comm, void* data, size_t nBytes, int type, uint64_t offset,
                            int descriptor, void** memory);
ncclResult_t deregisterMemory(void* comm, void* memory);

// Sizes below 0 and above kMaxBytes are refused, and so are groups of other than 1 to kMaxGroup
// buffers; a connection whose device has a smaller maxReceives refuses more itself.
ncclResult_t sendV8(void* comm, void* data, int nBytes, int tag, void* memory, void** request);
ncclResult_t sendV9(void* comm, void* data, size_t nBytes, int tag, void* memory, void** request);
ncclResult_t sendV10(void* comm, void* data, size_t nBytes, int tag, void* memory, void* profile,
                     void** request);
ncclResult_t receiveV8(void* comm, int n, void** data, int* sizes, int* tags, void** memories,
                       void** request);
ncclResult_t receiveV9(void* comm, int n, void** data, size_t* sizes, int* tags, void** memories,
                       void** request);
ncclResult_t receiveV10(void* comm, int n, void** data, size_t* sizes, int* tags, void** memories,
                        void** profiles, void** request);
ncclResult_t flushReceived(void* comm, int n, void** data, int* sizes, void** memories,
                           void** request);
// `sizes`: null, or room for one number for each buffer of the request.
ncclResult_t testRequest(void* request, int* done, int* sizes);

// Closing nothing is legal.
ncclResult_t closeConnection(void* comm);
ncclResult_t closeListener(void* listener);

// `out` is where the answer will go; only whether it is there matters.
ncclResult_t findProperties(int index, const void* out, const Properties** properties);

// The properties struct of any version: a version's own fields are set where it has them.
template <class NcclProperties>
ncclResult_t getProperties(int index, NcclProperties* out) {
  const Properties* device = nullptr;
  const ncclResult_t found = findProperties(index, out, &device);
  if (found != ncclSuccess) return found;
  *out = {};
  out->name = const_cast<char*>(device->name);
  out->pciPath = const_cast<char*>(device->pciPath);
  out->guid = device->guid;
  out->ptrSupport = NCCL_PTR_HOST | (device->takesDeviceMemory ? NCCL_PTR_CUDA : 0) |
                    (device->takesDmabuf ? NCCL_PTR_DMABUF : 0);
  out->speed = device->speedMbps;
  out->port = device->port;
  out->latency = device->latencyUs;
  out->maxComms = device->maxConnections;
  out->maxRecvs = device->maxReceives;
  out->netDeviceType = NCCL_NET_DEVICE_HOST;
  if constexpr (requires { out->vProps; }) {
    out->vProps.ndevs = 1;
    out->vProps.devs[0] = index;
    out->maxP2pBytes = out->maxCollBytes = std::min<size_t>(device->maxBytes, kMaxBytes);
  }
  if constexpr (requires { out->maxMultiRequestSize; }) out->maxMultiRequestSize = 1;
  if constexpr (requires { out->railId; }) out->railId = out->planeId = NCCL_NET_ID_UNDEF;
  return ncclSuccess;
}

}  // namespace cinch::net::abi
