/* A framework that is linked to NCCL, or holds it. Functions return what NCCL answered. */
#include "tests/loader/toy_calls.h"

#define TOY_EXPORT __attribute__((visibility("default")))

TOY_EXPORT int frameworkReduce(void) {
  return ncclAllReduce(kSend, kRecv, kCount, ncclInt64, ncclMax, kComm, kStream);
}

TOY_EXPORT int frameworkBcast(void) {
  return ncclBcast(kRecv, kCount, ncclInt64, 1, kComm, kStream);
}

/* A function that Cinch leaves alone. */
TOY_EXPORT int frameworkCount(void) {
  int count = 0;
  const ncclResult_t result = ncclCommCount(kComm, &count);
  return count == 1 ? (int)result : -1;
}
