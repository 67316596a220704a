/* NCCL's tuner table, version 6: NCCL 2.30 and later, new in it: the size of chunks. */
#ifndef CINCH_TUNER_PLUGIN_ABI_TUNER_V6_H_
#define CINCH_TUNER_PLUGIN_ABI_TUNER_V6_H_

#include "tuner_plugin/abi/tuner_v5.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const char* name;
  ncclResult_t (*init)(void** context, uint64_t commId, size_t nRanks, size_t nNodes,
                       ncclDebugLogger_t logger, ncclNvlDomainInfo_v5_t* domains,
                       ncclTunerConstants_v5_t* constants);
  ncclResult_t (*getCollInfo)(void* context, ncclFunc_t collective, size_t nBytes, int nPipeOps,
                              float** costs, int nAlgorithms, int nProtocols, int isRegistered,
                              int* nChannels);
  ncclResult_t (*finalize)(void* context);
  ncclResult_t (*getChunkSize)(void* context, ncclFunc_t collective, size_t nBytes, int algorithm,
                               int protocol, int nChannels, size_t* chunkSize);
} ncclTuner_v6_t;

#ifdef __cplusplus
}
#endif

#endif
