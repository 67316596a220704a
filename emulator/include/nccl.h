/* The part of NCCL 2.28's API that the emulator implements, for machines without NCCL's own header.
 * Every function exists a second time under the name p<name>, which no other library overrides.
 * Plain C and C++. What NCCL's documentation says of them holds; what differs is in
 * emulator/nccl/README.md. */
#ifndef CINCH_EMULATOR_NCCL_H_
#define CINCH_EMULATOR_NCCL_H_

#include <cuda_runtime_api.h>

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

CINCH_NCCL_FUNCTION(ncclResult_t, ncclGroupStart, (void));
CINCH_NCCL_FUNCTION(ncclResult_t, ncclGroupEnd, (void));

#undef CINCH_NCCL_FUNCTION

#ifdef __cplusplus
} /* extern "C" */
#endif
#pragma GCC visibility pop

#endif /* CINCH_EMULATOR_NCCL_H_ */
