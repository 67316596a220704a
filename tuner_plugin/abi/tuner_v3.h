/* NCCL's tuner table, version 3: NCCL 2.22 and later, new in it: the table of costs. It is a
 * float[nAlgorithms][nProtocols] of microseconds, whatever its type says; NCCL takes the smallest
 * that is not negative.
 * nChannels is 0 when NCCL asks, and NCCL's own number is taken where it stays so. */
#ifndef CINCH_TUNER_PLUGIN_ABI_TUNER_V3_H_
#define CINCH_TUNER_PLUGIN_ABI_TUNER_V3_H_

#include "tuner_plugin/abi/tuner_common.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const char* name;
  ncclResult_t (*init)(size_t nRanks, size_t nNodes, ncclDebugLogger_t logger, void** context);
  ncclResult_t (*getCollInfo)(void* context, ncclFunc_t collective, size_t nBytes, int nPipeOps,
                              float** costs, int nAlgorithms, int nProtocols, int* nChannels);
  ncclResult_t (*destroy)(void* context);
} ncclTuner_v3_t;

#ifdef __cplusplus
}
#endif

#endif
