/* A framework built for a newer NCCL than the one that is there. */
#include "tests/loader/toy_calls.h"

__attribute__((visibility("default"))) int frameworkAllocate(void) {
  void* memory = 0;
  return ncclMemAlloc(&memory, 64);
}

__attribute__((visibility("default"))) int frameworkVersion(void) {
  int version = 0;
  return ncclGetVersion(&version);
}
