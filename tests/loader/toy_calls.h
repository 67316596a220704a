/* The calls that a toy framework makes, with arguments that the toy NCCL checks. Plain C. */
#ifndef CINCH_TESTS_LOADER_TOY_CALLS_H_
#define CINCH_TESTS_LOADER_TOY_CALLS_H_

#include "emulator/include/nccl.h"

#define kSend ((void*)0x1110)
#define kRecv ((void*)0x2220)
#define kCount ((size_t)33)
#define kComm ((ncclComm_t)0x4440)
#define kStream ((struct CUstream_st*)0x5550)

typedef ncclResult_t (*AllReduceFunction)(const void* send, void* recv, size_t count,
                                          ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                          struct CUstream_st* stream);

static inline ncclResult_t callAllReduce(AllReduceFunction function) {
  return function(kSend, kRecv, kCount, ncclInt64, ncclMax, kComm, kStream);
}

#endif
