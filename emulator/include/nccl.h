/* The part of NCCL 2.28's API that the emulator implements, for machines without NCCL's own header.
 * Every function exists a second time under the name p<name>, which no other library overrides.
 * Plain C and C++. What NCCL's documentation says of them holds; what differs is in
 * emulator/nccl/README.md. */
#ifndef CINCH_EMULATOR_NCCL_H_
#define CINCH_EMULATOR_NCCL_H_

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "common/nccl_types.h"

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

#define CINCH_NCCL_FUNCTION(result, name, parameters) \
  result name parameters;                             \
  result p##name parameters

CINCH_NCCL_FUNCTION(ncclResult_t, ncclGetVersion, (int* version));
CINCH_NCCL_FUNCTION(const char*, ncclGetErrorString, (ncclResult_t result));
CINCH_NCCL_FUNCTION(const char*, ncclGetLastError, (ncclComm_t comm));

CINCH_NCCL_FUNCTION(ncclResult_t, ncclMemAlloc, (void** ptr, size_t size));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclMemFree, (void* ptr));

CINCH_NCCL_FUNCTION(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * uniqueId));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommInitRank,
                    (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommInitRankConfig,
                    (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank,
                     ncclConfig_t* config));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommInitRankScalable,
                    (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds,
                     ncclConfig_t* config));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommInitAll,
                    (ncclComm_t * comm, int ndev, const int* devlist));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommSplit,
                    (ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                     ncclConfig_t* config));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommShrink,
                    (ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                     ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int revokeFlags));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommFinalize, (ncclComm_t comm));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommDestroy, (ncclComm_t comm));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommAbort, (ncclComm_t comm));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommGetAsyncError,
                    (ncclComm_t comm, ncclResult_t* asyncError));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int* count));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int* device));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int* rank));

CINCH_NCCL_FUNCTION(ncclResult_t, ncclAllReduce,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclReduceScatter,
                    (const void* sendbuff, void* recvbuff, size_t recvcount,
                     ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                     cudaStream_t stream));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclAllGather,
                    (const void* sendbuff, void* recvbuff, size_t sendcount,
                     ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclReduce,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclBroadcast,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     int root, ncclComm_t comm, cudaStream_t stream));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclBcast,
                    (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                     cudaStream_t stream));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclSend,
                    (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                     ncclComm_t comm, cudaStream_t stream));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclRecv,
                    (void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                     ncclComm_t comm, cudaStream_t stream));

CINCH_NCCL_FUNCTION(ncclResult_t, ncclAlltoAll,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     ncclComm_t comm, cudaStream_t stream));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclGather,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     int root, ncclComm_t comm, cudaStream_t stream));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclScatter,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     int root, ncclComm_t comm, cudaStream_t stream));

/* Of NCCL 2.31. What a configuration asks for is ignored. */
CINCH_NCCL_FUNCTION(ncclResult_t, ncclAllReduceConfig,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                     const ncclCollConfig_t* config));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclReduceScatterConfig,
                    (const void* sendbuff, void* recvbuff, size_t recvcount,
                     ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                     const ncclCollConfig_t* config));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclAllGatherConfig,
                    (const void* sendbuff, void* recvbuff, size_t sendcount,
                     ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                     const ncclCollConfig_t* config));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclReduceConfig,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
                     const ncclCollConfig_t* config));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclBroadcastConfig,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     int root, ncclComm_t comm, cudaStream_t stream,
                     const ncclCollConfig_t* config));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclAlltoAllConfig,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclGatherConfig,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     int root, ncclComm_t comm, cudaStream_t stream,
                     const ncclCollConfig_t* config));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclScatterConfig,
                    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                     int root, ncclComm_t comm, cudaStream_t stream,
                     const ncclCollConfig_t* config));

CINCH_NCCL_FUNCTION(ncclResult_t, ncclRedOpCreatePreMulSum,
                    (ncclRedOp_t * op, void* scalar, ncclDataType_t datatype,
                     ncclScalarResidence_t residence, ncclComm_t comm));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm));

CINCH_NCCL_FUNCTION(ncclResult_t, ncclGroupStart, (void));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclGroupEnd, (void));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * simInfo));

CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommRegister,
                    (const ncclComm_t comm, void* buff, size_t size, void** handle));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void* handle));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommWindowRegister,
                    (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win));

/* Of NCCL 2.28's device API, 2.29 and 2.30, for programs that need the names to load. The first two
 * functions work, the others are ncclInvalidUsage. */
typedef enum {
  ncclStatGpuMemSuspend = 0,
  ncclStatGpuMemSuspended = 1,
  ncclStatGpuMemPersist = 2,
  ncclStatGpuMemTotal = 3
} ncclCommMemStat_t;

typedef struct {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx;
} ncclWaitSignalDesc_t;

typedef struct ncclDevComm ncclDevComm_t;
typedef struct ncclDevCommRequirements ncclDevCommRequirements_t;

CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommMemStats,
                    (ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclWinGetUserPtr,
                    (ncclComm_t comm, ncclWindow_t win, void** outUserPtr));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommSuspend, (ncclComm_t comm, int flags));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommResume, (ncclComm_t comm));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommGetUniqueId, (ncclComm_t comm, ncclUniqueId* uniqueId));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclCommGrow,
                    (ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
                     ncclComm_t* newcomm, ncclConfig_t* config));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclPutSignal,
                    (const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
                     ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                     unsigned int flags, ncclComm_t comm, cudaStream_t stream));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclSignal,
                    (int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                     cudaStream_t stream));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclWaitSignal,
                    (int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
                     cudaStream_t stream));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclDevCommCreate,
                    (ncclComm_t comm, const ncclDevCommRequirements_t* reqs,
                     ncclDevComm_t* outDevComm));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclDevCommDestroy,
                    (ncclComm_t comm, const ncclDevComm_t* devComm));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclGetLsaMultimemDevicePointer,
                    (ncclWindow_t window, size_t offset, void** outPtr));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclGetPeerDevicePointer,
                    (ncclWindow_t window, size_t offset, int peer, void** outPtr));

#undef CINCH_NCCL_FUNCTION

#ifdef __cplusplus
} /* extern "C" */
#endif
#pragma GCC visibility pop

#endif /* CINCH_EMULATOR_NCCL_H_ */
