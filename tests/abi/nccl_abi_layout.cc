// Compiled once with each header; CINCH_ABI_LAYOUT names the function.
#include "tests/abi/nccl_abi_layout.h"

#include <nccl.h>

#include <cstddef>
#include <type_traits>

namespace cinch::test {
#define SIZE(type) \
  { "sizeof " #type, sizeof(type) }
#define FIELD(type, field) \
  { "offset " #type "." #field, offsetof(type, field) }
#define VALUE(name) \
  { #name, static_cast < long>(name) }
#define FUNCTION(name, ...)                                                                    \
  {                                                                                            \
#name, std::is_same_v < decltype(name), __VA_ARGS__>&& std::is_same_v < decltype(p##name), \
        __VA_ARGS__>                                                                           \
  }

NcclLayout CINCH_ABI_LAYOUT() {
  using Bytes = const void*;
  return {
      // One row each would be a hundred lines.
      // clang-format off
      VALUE(NCCL_MAJOR), VALUE(NCCL_MINOR), VALUE(NCCL_UNIQUE_ID_BYTES), SIZE(ncclUniqueId),
      SIZE(ncclConfig_t), SIZE(ncclSimInfo_t), SIZE(ncclComm_t), SIZE(ncclResult_t),
      SIZE(ncclDataType_t), SIZE(ncclRedOp_t), FIELD(ncclConfig_t, size),
      FIELD(ncclConfig_t, magic), FIELD(ncclConfig_t, version), FIELD(ncclConfig_t, blocking),
      FIELD(ncclConfig_t, netName), FIELD(ncclConfig_t, splitShare),
      FIELD(ncclConfig_t, trafficClass), FIELD(ncclConfig_t, commName),
      FIELD(ncclConfig_t, collnetEnable), FIELD(ncclConfig_t, CTAPolicy),
      FIELD(ncclConfig_t, shrinkShare), FIELD(ncclConfig_t, nvlsCTAs),
      FIELD(ncclConfig_t, nChannelsPerNetPeer), FIELD(ncclConfig_t, nvlinkCentricSched),
      FIELD(ncclSimInfo_t, estimatedTime), VALUE(ncclSuccess), VALUE(ncclUnhandledCudaError),
      VALUE(ncclSystemError), VALUE(ncclInternalError), VALUE(ncclInvalidArgument),
      VALUE(ncclInvalidUsage), VALUE(ncclRemoteError), VALUE(ncclInProgress), VALUE(ncclNumResults),
      VALUE(ncclSum), VALUE(ncclProd), VALUE(ncclMax), VALUE(ncclMin), VALUE(ncclAvg),
      VALUE(ncclNumOps), VALUE(ncclInt8), VALUE(ncclUint8), VALUE(ncclInt32), VALUE(ncclUint32),
      VALUE(ncclInt64), VALUE(ncclUint64), VALUE(ncclFloat16), VALUE(ncclFloat32),
      VALUE(ncclFloat64), VALUE(ncclBfloat16), VALUE(ncclFloat8e4m3), VALUE(ncclFloat8e5m2),
      VALUE(ncclNumTypes),
      // clang-format on
      FUNCTION(ncclGetUniqueId, ncclResult_t(ncclUniqueId*)),
      FUNCTION(ncclCommInitRankConfig,
               ncclResult_t(ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*)),
      FUNCTION(ncclCommAbort, ncclResult_t(ncclComm_t)),
      FUNCTION(ncclCommGetAsyncError, ncclResult_t(ncclComm_t, ncclResult_t*)),
      FUNCTION(ncclCommCount, ncclResult_t(const ncclComm_t, int*)),
      FUNCTION(ncclGetLastError, const char*(ncclComm_t)),
      FUNCTION(ncclMemAlloc, ncclResult_t(void**, size_t)),
      FUNCTION(ncclAllReduce, ncclResult_t(Bytes, void*, size_t, ncclDataType_t, ncclRedOp_t,
                                           ncclComm_t, cudaStream_t)),
      FUNCTION(ncclReduceScatter, ncclResult_t(Bytes, void*, size_t, ncclDataType_t, ncclRedOp_t,
                                               ncclComm_t, cudaStream_t)),
      FUNCTION(ncclAllGather,
               ncclResult_t(Bytes, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t)),
      FUNCTION(ncclReduce, ncclResult_t(Bytes, void*, size_t, ncclDataType_t, ncclRedOp_t, int,
                                        ncclComm_t, cudaStream_t)),
      FUNCTION(ncclBroadcast,
               ncclResult_t(Bytes, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)),
      FUNCTION(ncclBcast,
               ncclResult_t(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)),
      FUNCTION(ncclSend,
               ncclResult_t(Bytes, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)),
      FUNCTION(ncclRecv,
               ncclResult_t(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)),
      FUNCTION(ncclGroupStart, ncclResult_t()),
      FUNCTION(ncclGroupEnd, ncclResult_t()),
      FUNCTION(ncclGroupSimulateEnd, ncclResult_t(ncclSimInfo_t*)),
      FUNCTION(ncclCommInitRankScalable,
               ncclResult_t(ncclComm_t*, int, int, int, ncclUniqueId*, ncclConfig_t*)),
      FUNCTION(ncclCommInitAll, ncclResult_t(ncclComm_t*, int, const int*)),
      FUNCTION(ncclCommSplit, ncclResult_t(ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*)),
      FUNCTION(ncclCommShrink,
               ncclResult_t(ncclComm_t, int*, int, ncclComm_t*, ncclConfig_t*, int)),
      FUNCTION(ncclRedOpCreatePreMulSum, ncclResult_t(ncclRedOp_t*, void*, ncclDataType_t,
                                                      ncclScalarResidence_t, ncclComm_t)),
      FUNCTION(ncclRedOpDestroy, ncclResult_t(ncclRedOp_t, ncclComm_t)),
      FUNCTION(ncclAlltoAll,
               ncclResult_t(Bytes, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t)),
      FUNCTION(ncclGather,
               ncclResult_t(Bytes, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)),
      FUNCTION(ncclScatter,
               ncclResult_t(Bytes, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)),
      FUNCTION(ncclCommRegister, ncclResult_t(const ncclComm_t, void*, size_t, void**)),
      FUNCTION(ncclCommDeregister, ncclResult_t(const ncclComm_t, void*)),
      FUNCTION(ncclCommWindowRegister, ncclResult_t(ncclComm_t, void*, size_t, ncclWindow_t*, int)),
      FUNCTION(ncclCommWindowDeregister, ncclResult_t(ncclComm_t, ncclWindow_t)),
  };
}

}  // namespace cinch::test
