/* As XLA and TensorFlow bind NCCL: no dependency on it; its name is opened at the first call, and
 * each function is looked up in that handle. */
#include <dlfcn.h>
#include <stddef.h>

#include "tests/loader/toy_calls.h"

static void* lookUp(const char* name) {
  static void* handle = NULL;
  if (handle == NULL) handle = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  return handle == NULL ? NULL : dlsym(handle, name);
}

__attribute__((visibility("default"))) int stubReduce(void) {
  const AllReduceFunction reduce = (AllReduceFunction)lookUp("ncclAllReduce");
  return reduce == NULL ? (int)ncclSystemError : (int)callAllReduce(reduce);
}
