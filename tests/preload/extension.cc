// A framework's extension module in miniature: linked to libnccl, loaded RTLD_LOCAL as Python loads
// its modules, so that NCCL is not in the global scope.
#include <cstdint>

#include "emulator/include/nccl.h"
#include "tests/fake/nccl/fake_nccl.h"

extern "C" __attribute__((visibility("default"))) int64_t reduceThroughExtension() {
  float value = 1;
  ncclGroupStart();
  if (ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, nullptr, nullptr) != ncclSuccess)
    return -1;
  ncclGroupEnd();
  return fakeNcclCalls("AllReduce");
}
