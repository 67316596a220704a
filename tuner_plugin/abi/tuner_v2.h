/* NCCL's tuner table, version 2: NCCL 2.21 and later. The choice is made by number: whether it is
 * possible is for the tuner to know. */
#ifndef CINCH_TUNER_PLUGIN_ABI_TUNER_V2_H_
#define CINCH_TUNER_PLUGIN_ABI_TUNER_V2_H_

#include "tuner_plugin/abi/tuner_common.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const char* name;
  ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t logger, void** context);
  ncclResult_t (*getCollInfo)(void* context, ncclFunc_t collective, size_t nBytes,
                              int collNetSupport, int nvlsSupport, int nPipeOps, int* algorithm,
                              int* protocol, int* nChannels);
  ncclResult_t (*destroy)(void* context);
} ncclTuner_v2_t;

#ifdef __cplusplus
}
#endif

#endif
