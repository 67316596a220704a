/* A net plugin that breaks one of NCCL's rules, over one that keeps them all: shows that the
 * harness notices. NET_FAULT names the fault. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net_plugin/abi/net_v12.h"

enum { kMaxReceives = 1024 };

typedef struct {
  void* request;
  uint8_t* data;
  size_t capacity;
  int count; /* of the buffers; the first is above */
} Receive;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static Receive receives[kMaxReceives]; /* that are posted */
static const ncclNet_v12_t* sound;
static int nPutOff;

static bool has(const char* fault) {
  const char* wanted = getenv("NET_FAULT");
  return wanted != NULL && strcmp(wanted, fault) == 0;
}

static Receive exchangeReceive(void* request, Receive by) {
  Receive found = {0};
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < kMaxReceives; ++i) {
    if (receives[i].request != request) continue;
    found = receives[i];
    receives[i] = by;
    break;
  }
  pthread_mutex_unlock(&mutex);
  return found;
}

static ncclResult_t getProperties(int dev, ncclNetProperties_v12_t* properties) {
  const ncclResult_t result = sound->getProperties(dev, properties);
  if (has("properties")) properties->maxP2pBytes = 0;
  return result;
}

static ncclResult_t listenOn(void* ctx, int dev, void* handle, void** listener) {
  if (has("descriptors") && dup(STDERR_FILENO) < 0) return ncclSystemError;
  return sound->listen(ctx, dev, handle, listener);
}

static ncclResult_t connectTo(void* ctx, int dev, void* handle, void** comm,
                              ncclNetDeviceHandle_t** none) {
  ncclResult_t result = sound->connect(ctx, dev, handle, comm, none);
  while (has("blocking_connect") && result == ncclSuccess && *comm == NULL) {
    result = sound->connect(ctx, dev, handle, comm, none);
  }
  return result;
}

static ncclResult_t acceptFrom(void* listener, void** comm, ncclNetDeviceHandle_t** none) {
  ncclResult_t result = sound->accept(listener, comm, none);
  while (has("blocking_accept") && result == ncclSuccess && *comm == NULL) {
    result = sound->accept(listener, comm, none);
  }
  return result;
}

static ncclResult_t isend(void* comm, void* data, size_t size, int tag, void* memory, void* profile,
                          void** request) {
  if (has("stale_request") && nPutOff++ < 3) return ncclSuccess;
  if (has("cut") && size > 1000) size = 1000;
  if (has("tags")) tag = 0;
  return sound->isend(comm, data, size, tag, memory, profile, request);
}

static ncclResult_t irecv(void* comm, int n, void** data, size_t* sizes, int* tags, void** memories,
                          void** profiles, void** request) {
  if (has("tags")) memset(tags, 0, (size_t)n * sizeof *tags);
  const ncclResult_t result = sound->irecv(comm, n, data, sizes, tags, memories, profiles, request);
  if (result == ncclSuccess && *request != NULL) {
    exchangeReceive(NULL, (Receive){*request, data[0], sizes[0], n});
  }
  return result;
}

static void swapSizes(int* sizes) {
  const int first = sizes[0];
  sizes[0] = sizes[1];
  sizes[1] = first;
}

static void spoil(Receive receive, int* nBytes) {
  if (has("wrong_byte") && *nBytes > 0) receive.data[*nBytes - 1] ^= 1;
  if (has("overrun") && (size_t)*nBytes < receive.capacity) receive.data[*nBytes] ^= 1;
  if (has("size")) *nBytes = (int)receive.capacity;
  if (has("group_sizes") && receive.count > 1) swapSizes(nBytes);
}

static ncclResult_t test(void* request, int* done, int* nBytes) {
  while (has("hang")) pause();
  const ncclResult_t result = sound->test(request, done, nBytes);
  if (result != ncclSuccess || !*done) return result;
  const Receive receive = exchangeReceive(request, (Receive){0});
  if (receive.request != NULL) spoil(receive, nBytes);
  return result;
}

static ncclResult_t closeSend(void* comm) {
  if (has("crash")) abort();
  return sound->closeSend(comm);
}

/* Not const: filled when the library is loaded. */
__attribute__((visibility("default"))) ncclNet_v12_t ncclNetPlugin_v12;

__attribute__((constructor)) static void fill(void) {
  void* library = dlopen(SOUND_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  sound = library == NULL ? NULL : dlsym(library, "ncclNetPlugin_v12");
  if (sound == NULL) return;
  ncclNetPlugin_v12 = *sound;
  ncclNetPlugin_v12.getProperties = getProperties;
  ncclNetPlugin_v12.listen = listenOn;
  ncclNetPlugin_v12.connect = connectTo;
  ncclNetPlugin_v12.accept = acceptFrom;
  ncclNetPlugin_v12.isend = isend;
  ncclNetPlugin_v12.irecv = irecv;
  ncclNetPlugin_v12.test = test;
  ncclNetPlugin_v12.closeSend = closeSend;
  if (has("missing")) ncclNetPlugin_v12.regMr = NULL;
}
