// libibverbs as one table of functions, the only door to it: filled from the library where it is
// installed, or by a fake provider in tests. Nothing links against the library, so that the plugin
// loads on hosts without it.
//
// Names, arguments and results are those of <infiniband/verbs.h> (rdma-core): a null pointer with
// errno where something cannot be made, an errno value, or -1 with errno, where something cannot be
// done. Three of its functions exist inline only; they go through the provider's own table
// (ibv_context_ops), which every object of it points to.
#pragma once

#include <infiniband/verbs.h>

#include "common/result.h"

namespace cinch::net::ib {

struct VerbsApi {
  int (*forkInit)() = nullptr;  // before anything is registered; again is harmless
  ibv_device** (*getDeviceList)(int* nDevices) = nullptr;
  void (*freeDeviceList)(ibv_device** list) = nullptr;
  const char* (*getDeviceName)(ibv_device* device) = nullptr;
  ibv_context* (*openDevice)(ibv_device* device) = nullptr;
  int (*closeDevice)(ibv_context* context) = nullptr;
  int (*queryDevice)(ibv_context* context, ibv_device_attr* attributes) = nullptr;
  // Fills what the first version of the structure had; the caller clears the rest before.
  int (*queryPort)(ibv_context* context, uint8_t port, ibv_port_attr* attributes) = nullptr;
  int (*queryGid)(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry,
                  uint32_t flags, size_t entryBytes) = nullptr;
  int (*getAsyncEvent)(ibv_context* context, ibv_async_event* event) = nullptr;
  void (*ackAsyncEvent)(ibv_async_event* event) = nullptr;

  ibv_pd* (*allocPd)(ibv_context* context) = nullptr;
  int (*deallocPd)(ibv_pd* pd) = nullptr;
  ibv_mr* (*regMr)(ibv_pd* pd, void* data, size_t nBytes, int access) = nullptr;
  int (*deregMr)(ibv_mr* region) = nullptr;
  ibv_cq* (*createCq)(ibv_context* context, int entries, void* owner, ibv_comp_channel* channel,
                      int vector) = nullptr;
  int (*destroyCq)(ibv_cq* queue) = nullptr;
  ibv_qp* (*createQp)(ibv_pd* pd, ibv_qp_init_attr* attributes) = nullptr;
  int (*modifyQp)(ibv_qp* queue, ibv_qp_attr* attributes, int which) = nullptr;
  int (*destroyQp)(ibv_qp* queue) = nullptr;

  // Of the data path. Nothing of them waits.
  int (*pollCq)(ibv_cq* queue, int most, ibv_wc* found) = nullptr;
  int (*postSend)(ibv_qp* queue, ibv_send_wr* first, ibv_send_wr** refused) = nullptr;
  int (*postReceive)(ibv_qp* queue, ibv_recv_wr* first, ibv_recv_wr** refused) = nullptr;

  // Null where the library is older.
  ibv_mr* (*regMrIova2)(ibv_pd* pd, void* data, size_t nBytes, uint64_t iova,
                        unsigned access) = nullptr;  // rdma-core 25: relaxed ordering
  ibv_mr* (*regDmabufMr)(ibv_pd* pd, uint64_t offset, size_t nBytes, uint64_t iova, int fd,
                         int access) = nullptr;                // 34
  int (*queryEce)(ibv_qp* queue, ibv_ece* options) = nullptr;  // 30
  int (*setEce)(ibv_qp* queue, ibv_ece* options) = nullptr;    // 30
};

// The installed library's, loaded at the first call and kept until the process ends. An error says
// what is missing. Thread-safe.
Result<const VerbsApi*> loadVerbs();

// The same of a library under another name, for tests.
Result<VerbsApi> loadVerbsFrom(const char* library);

}  // namespace cinch::net::ib
