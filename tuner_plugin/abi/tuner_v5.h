/* NCCL's tuner table, version 5: NCCL 2.28 and later, new in it: the communicator's id, its NVLink
 * domains, and the constants of the cost model, which a tuner may change. */
#ifndef CINCH_TUNER_PLUGIN_ABI_TUNER_V5_H_
#define CINCH_TUNER_PLUGIN_ABI_TUNER_V5_H_

#include "tuner_plugin/abi/tuner_common.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int nNvlDomains;
  int minRanksPerNvlDomain;
  int maxRanksPerNvlDomain;
} ncclNvlDomainInfo_v5_t;

/* By algorithm and protocol, by kind of link, or by compute capability and number of nodes. */
typedef struct {
  double baseLatencies[7][3];
  double hwLatencies[3][7][3];
  double llMaxBws[4][3];
  double perChMaxRingLL128Bws[4][3];
  double perChMaxTreeLL128Bws[4][3];
  double perChMaxTreeBws[4][3];
  double perChMaxNVLSTreeBws[4][3];
} ncclTunerConstants_v5_t;

typedef struct {
  const char* name;
  ncclResult_t (*init)(void** context, uint64_t commId, size_t nRanks, size_t nNodes,
                       ncclDebugLogger_t logger, ncclNvlDomainInfo_v5_t* domains,
                       ncclTunerConstants_v5_t* constants);
  ncclResult_t (*getCollInfo)(void* context, ncclFunc_t collective, size_t nBytes, int nPipeOps,
                              float** costs, int nAlgorithms, int nProtocols, int isRegistered,
                              int* nChannels);
  ncclResult_t (*finalize)(void* context);
} ncclTuner_v5_t;

#ifdef __cplusplus
}
#endif

#endif
