/* NCCL in miniature, for the ways in which a program can get hold of it: strong pncclX, weak ncclX
 * for the same code, and a line on standard output for every call:
 *
 *   real COPY NAME from OBJECT      the copy that was reached, and the object that called it
 *
 * TOY_COPY names the copy. Calls with other arguments than toy_calls.h has are refused. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/loader/toy_calls.h"

#define TOY_EXPORT __attribute__((visibility("default")))
#define TOY_ALIAS(name, parameters) \
  TOY_EXPORT __attribute__((weak, alias("pnccl" #name))) ncclResult_t nccl##name parameters;
#define TOY_NOTE(name) note(name, __builtin_return_address(0))

/* As the real library carries it, in its constants. */
static const char __attribute__((used)) kVersion[] = "NCCL version " TOY_VERSION "+cuda12.2";

static void note(const char* name, const void* caller) {
  Dl_info info = {0};
  const int known = dladdr(caller, &info);
  const char* object = known && info.dli_fname ? info.dli_fname : "?";
  const char* slash = strrchr(object, '/');
  char line[256];
  const int length = snprintf(line, sizeof line, "real " TOY_COPY " %s from %s\n", name,
                              slash ? slash + 1 : object);
  if (write(STDOUT_FILENO, line, (size_t)length) != length) _exit(98);
}

TOY_EXPORT ncclResult_t pncclGetVersion(int* version) {
  *version = TOY_VERSION_CODE;
  return ncclSuccess;
}
TOY_ALIAS(GetVersion, (int* version))

TOY_EXPORT ncclResult_t pncclAllReduce(const void* send, void* recv, size_t count,
                                       ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                       struct CUstream_st* stream) {
  TOY_NOTE("AllReduce");
  const int good = send == kSend && recv == kRecv && count == kCount && type == ncclInt64 &&
                   op == ncclMax && comm == kComm && stream == kStream;
  return good ? ncclSuccess : ncclInvalidArgument;
}
TOY_ALIAS(AllReduce, (const void* send, void* recv, size_t count, ncclDataType_t type,
                      ncclRedOp_t op, ncclComm_t comm, struct CUstream_st* stream))

TOY_EXPORT ncclResult_t pncclBroadcast(const void* send, void* recv, size_t count,
                                       ncclDataType_t type, int root, ncclComm_t comm,
                                       struct CUstream_st* stream) {
  TOY_NOTE("Broadcast");
  const int good = send == kRecv && recv == kRecv && count == kCount && type == ncclInt64 &&
                   root == 1 && comm == kComm && stream == kStream;
  return good ? ncclSuccess : ncclInvalidArgument;
}
TOY_ALIAS(Broadcast, (const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                      ncclComm_t comm, struct CUstream_st* stream))

/* Like the real one, through the public name of the other. */
TOY_EXPORT ncclResult_t pncclBcast(void* buffer, size_t count, ncclDataType_t type, int root,
                                   ncclComm_t comm, struct CUstream_st* stream) {
  TOY_NOTE("Bcast");
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
TOY_ALIAS(Bcast, (void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                  struct CUstream_st* stream))

TOY_EXPORT ncclResult_t pncclCommCount(ncclComm_t comm, int* count) {
  TOY_NOTE("CommCount");
  *count = 1;
  return comm == kComm ? ncclSuccess : ncclInvalidArgument;
}
TOY_ALIAS(CommCount, (ncclComm_t comm, int* count))

TOY_EXPORT ncclResult_t pncclCommUserRank(ncclComm_t comm, int* rank) {
  *rank = 0;
  return comm == kComm ? ncclSuccess : ncclInvalidArgument;
}
TOY_ALIAS(CommUserRank, (ncclComm_t comm, int* rank))
