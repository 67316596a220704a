/* NCCL's tuner table, version 4: NCCL 2.24 and later, new in it: whether the caller's buffers are
 * registered. */
#ifndef CINCH_TUNER_PLUGIN_ABI_TUNER_V4_H_
#define CINCH_TUNER_PLUGIN_ABI_TUNER_V4_H_

#include "tuner_plugin/abi/tuner_common.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const char* name;
  ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t logger, void** context);
  ncclResult_t (*getCollInfo)(void* context, ncclFunc_t collective, size_t nBytes, int nPipeOps,
                              float** costs, int nAlgorithms, int nProtocols, int isRegistered,
                              int* nChannels);
  ncclResult_t (*destroy)(void* context);
} ncclTuner_v4_t;

#ifdef __cplusplus
}
#endif

#endif
