/* An NCCL net plugin, opened at one version of its table. The calls are the same for all versions;
 * what a version lacks is filled in as NCCL does it for its own. */
#ifndef CINCH_TESTS_NET_CONFORMANCE_PLUGIN_H_
#define CINCH_TESTS_NET_CONFORMANCE_PLUGIN_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net_plugin/abi/net_common.h"

enum { kOldestVersion = 8, kNewestVersion = 12, kVersions = kNewestVersion - kOldestVersion + 1 };

typedef struct {
  const char* name;
  const char* pciPath;
  uint64_t guid;
  int ptrSupport;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  int netDeviceType;
  int nPhysical; /* devices that it stands for */
  size_t maxP2pBytes;
  size_t maxCollBytes;
} Properties;

enum { kMaxGroup = 8 };

/* The buffers of one irecv. */
typedef struct {
  int count;
  void* data[kMaxGroup];
  size_t capacities[kMaxGroup];
  int tags[kMaxGroup];
  void* memory; /* of all of them */
} Group;

typedef struct Plugin Plugin;

/* One for each version; NCCL's results are handed through. */
typedef struct {
  const char* symbol;
  const char* (*missing)(const Plugin*); /* an entry that must not be null but is; or null */
  const char* (*name)(const Plugin*);
  ncclResult_t (*init)(Plugin*, ncclDebugLogger_t);
  ncclResult_t (*finalize)(Plugin*); /* before v11: nothing */
  ncclResult_t (*devices)(const Plugin*, int* count);
  ncclResult_t (*getProperties)(const Plugin*, int dev, Properties*);
  ncclResult_t (*listen)(const Plugin*, int dev, void* handle, void** listener);
  ncclResult_t (*connect)(const Plugin*, int dev, void* handle, void** comm);
  ncclResult_t (*accept)(const Plugin*, void* listener, void** comm);
  ncclResult_t (*regMr)(const Plugin*, void* comm, void* data, size_t nBytes, void** memory);
  ncclResult_t (*deregMr)(const Plugin*, void* comm, void* memory);
  ncclResult_t (*isend)(const Plugin*, void* comm, void* data, size_t nBytes, void* memory,
                        void** request);
  ncclResult_t (*irecv)(const Plugin*, void* comm, void* data, size_t capacity, void* memory,
                        void** request);
  /* The same with a tag, and for several buffers at once. */
  ncclResult_t (*isendTagged)(const Plugin*, void* comm, void* data, size_t nBytes, int tag,
                              void* memory, void** request);
  ncclResult_t (*irecvGroup)(const Plugin*, void* comm, const Group*, void** request);
  /* `sizes`: one for each buffer. */
  ncclResult_t (*test)(const Plugin*, void* request, int* done, int* sizes);
  ncclResult_t (*closeSend)(const Plugin*, void* comm);
  ncclResult_t (*closeRecv)(const Plugin*, void* comm);
  ncclResult_t (*closeListen)(const Plugin*, void* listener);
} PluginCalls;

struct Plugin {
  void* library;
  const void* table;
  void* context; /* v11 and later: of the one communicator */
  const PluginCalls* calls;
};

const PluginCalls* callsOfVersion(int version);

/* Loads the library as NCCL does. Null on success, else what is wrong: no such file, or no such
 * table. The library is closed again in that case. */
const char* openPlugin(Plugin* plugin, const char* path, int version);
void closePlugin(Plugin* plugin);

#endif
