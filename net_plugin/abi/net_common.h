/* What all versions of NCCL's net plugin table share, as facts of its ABI (NCCL 2.20 to 2.30; read
 * in 2.30.7). Plain C: declared here so that Cinch builds where NCCL's headers are not installed.
 */
#ifndef CINCH_NET_PLUGIN_ABI_NET_COMMON_H_
#define CINCH_NET_PLUGIN_ABI_NET_COMMON_H_

#include <stddef.h>
#include <stdint.h>

#include "common/nccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  NCCL_NET_HANDLE_MAXSIZE = 128, /* bytes that listen may fill and connect gets */
  NCCL_NET_MAX_REQUESTS = 32, /* outstanding on one connection, of each of its grouped receives */
  NCCL_NET_OPTIONAL_RECV_COMPLETION = 1, /* found in *request by irecv: v9 and later, a hint */
  NCCL_PTR_HOST = 1,
  NCCL_PTR_CUDA = 2,
  NCCL_PTR_DMABUF = 4,
  NCCL_NET_DEVICE_HOST = 0, /* no offload to the device: ncclNetDeviceType, and its version 0 */
  NCCL_NET_TRAFFIC_CLASS_UNDEF = -1,
  NCCL_NET_ID_UNDEF = -1
};

/* Where the bytes of a plugin's log lines go: NCCL's own log. */
typedef enum {
  NCCL_LOG_NONE = 0,
  NCCL_LOG_VERSION = 1,
  NCCL_LOG_WARN = 2,
  NCCL_LOG_INFO = 3,
  NCCL_LOG_ABORT = 4,
  NCCL_LOG_TRACE = 5
} ncclDebugLogLevel;
enum { NCCL_LOG_INIT = 0x1, NCCL_LOG_NET = 0x10 };
typedef void (*ncclDebugLogger_t)(ncclDebugLogLevel level, unsigned long flags, const char* file,
                                  int line, const char* format, ...);

typedef ncclResult_t (*ncclProfilerCallback_t)(void** event, int type, void* parent,
                                               int64_t pluginId, void* data);

/* Asked for by NCCL where a device would take over a connection; Cinch never offers that. */
typedef struct {
  int netDeviceType;
  int netDeviceVersion;
  void* handle;
  size_t size;
  int needsProxyProgress;
} ncclNetDeviceHandle_t;

/* v9 to v11: a device that is several of the physical ones. */
typedef struct {
  int ndevs;
  int devs[4];
} ncclNetVDeviceProps_v9_t;

/* v10 to v12. */
typedef struct {
  int trafficClass; /* NCCL_NET_TRAFFIC_CLASS_UNDEF: none asked for */
} ncclNetCommConfig_t;

/* v11 and v12: hints. */
typedef struct {
  int32_t maxConcurrentPeers;
  int32_t minConcurrentPeers;
  int32_t maxFlowsPerPeer;
  int32_t minFlowsPerPeer;
} ncclNetCommAttr_t;
typedef struct {
  ncclNetCommAttr_t sendCommAttr;
  ncclNetCommAttr_t recvCommAttr;
  uint32_t op;
  uint32_t algo;
  uint32_t proto;
} ncclNetAttr_t;

#ifdef __cplusplus
}
#endif

#endif
