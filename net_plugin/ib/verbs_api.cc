#include "net_plugin/ib/verbs_api.h"

#include <dlfcn.h>

namespace cinch::net::ib {
namespace {

// Symbols have versions, and the newest of a name is not always the one of this header.
constexpr const char* kVersion1 = "IBVERBS_1.1";

int pollCqInline(ibv_cq* queue, int most, ibv_wc* found) {
  return queue->context->ops.poll_cq(queue, most, found);
}
int postSendInline(ibv_qp* queue, ibv_send_wr* first, ibv_send_wr** refused) {
  return queue->context->ops.post_send(queue, first, refused);
}
int postReceiveInline(ibv_qp* queue, ibv_recv_wr* first, ibv_recv_wr** refused) {
  return queue->context->ops.post_recv(queue, first, refused);
}

// Looks symbols up in one library and remembers the first that it lacks.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <class Function>
  void optional(Function*& function, const char* name, const char* version) {
    function = reinterpret_cast<Function*>(dlvsym(library_, name, version));
  }
  template <class Function>
  void required(Function*& function, const char* name, const char* version = kVersion1) {
    optional(function, name, version);
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }
  const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

void lookUpDevices(Symbols& symbols, VerbsApi& api) {
  symbols.required(api.getDeviceList, "ibv_get_device_list");
  symbols.required(api.freeDeviceList, "ibv_free_device_list");
  symbols.required(api.getDeviceName, "ibv_get_device_name");
  symbols.required(api.openDevice, "ibv_open_device");
  symbols.required(api.closeDevice, "ibv_close_device");
  symbols.required(api.queryDevice, "ibv_query_device");
  symbols.required(api.queryPort, "ibv_query_port");
  symbols.required(api.queryGid, "_ibv_query_gid_ex", "IBVERBS_1.11");
  symbols.required(api.getAsyncEvent, "ibv_get_async_event");
  symbols.required(api.ackAsyncEvent, "ibv_ack_async_event");
  symbols.required(api.forkInit, "ibv_fork_init");
}

void lookUpObjects(Symbols& symbols, VerbsApi& api) {
  symbols.required(api.allocPd, "ibv_alloc_pd");
  symbols.required(api.deallocPd, "ibv_dealloc_pd");
  symbols.required(api.regMr, "ibv_reg_mr");
  symbols.required(api.deregMr, "ibv_dereg_mr");
  symbols.required(api.createCq, "ibv_create_cq");
  symbols.required(api.destroyCq, "ibv_destroy_cq");
  symbols.required(api.createQp, "ibv_create_qp");
  symbols.required(api.modifyQp, "ibv_modify_qp");
  symbols.required(api.destroyQp, "ibv_destroy_qp");
  symbols.optional(api.regMrIova2, "ibv_reg_mr_iova2", "IBVERBS_1.8");
  symbols.optional(api.regDmabufMr, "ibv_reg_dmabuf_mr", "IBVERBS_1.12");
  symbols.optional(api.queryEce, "ibv_query_ece", "IBVERBS_1.10");
  symbols.optional(api.setEce, "ibv_set_ece", "IBVERBS_1.10");
}

}  // namespace

Result<VerbsApi> loadVerbsFrom(const char* library) {
  void* loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    return errorf(Status::systemError, "%s; InfiniBand and RoCE need rdma-core (libibverbs1)",
                  dlerror());
  }
  Symbols symbols(loaded);
  VerbsApi api;
  lookUpDevices(symbols, api);
  lookUpObjects(symbols, api);
  if (symbols.missing() != nullptr) {
    const Error error =
        errorf(Status::systemError, "%s lacks %s; InfiniBand and RoCE need rdma-core 32 or later",
               library, symbols.missing());
    dlclose(loaded);
    return error;
  }
  api.pollCq = pollCqInline;
  api.postSend = postSendInline;
  api.postReceive = postReceiveInline;
  return api;
}

Result<const VerbsApi*> loadVerbs() {
  static const Result<VerbsApi> api = loadVerbsFrom("libibverbs.so.1");
  if (!api) return api.error();
  return &api.value();
}

}  // namespace cinch::net::ib
