/* The emulator's headers compile as plain C, and its libraries link into a plain C program. */
#include <nccl.h>

int main(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  int version = 0;
  cudaStream_t stream = NULL;
  ncclResult_t (*reduce)(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                         cudaStream_t) = pncclAllReduce;
  const ncclResult_t refused = reduce(NULL, NULL, 1, ncclFloat32, ncclSum, NULL, stream);
  if (ncclGetVersion(&version) != ncclSuccess || version != NCCL_VERSION_CODE) return 1;
  return refused == ncclInvalidArgument && config.magic == NCCL_CONFIG_MAGIC ? 0 : 2;
}
