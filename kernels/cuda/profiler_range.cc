#include "kernels/cuda/profiler_range.h"

#include <nvtx3/nvToolsExt.h>

namespace cinch::cuda {
namespace {

// Never destroyed: threads may still be in a range when the process ends.
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t nccl = nvtxDomainCreateA("NCCL");
  return nccl;
}

}  // namespace

void rangePush(const char* name) {
  nvtxEventAttributes_t range = {};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &range);
}

void rangePop() {
  nvtxDomainRangePop(domain());
}

}  // namespace cinch::cuda
