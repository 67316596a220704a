// What the tables of all versions share: tuner_plugin/tuner.h behind NCCL's calling convention.
//
// Nothing is thrown at NCCL, and nothing fails: NCCL ends the communicator where a tuner returns an
// error, though its headers say otherwise. Whatever goes wrong is a line in the log, and no
// opinion.
#pragma once

#include "tuner_plugin/abi/tuner_v6.h"

namespace cinch::tuner::abi {

inline constexpr const char* kPluginName = "Cinch";

// The functions below have the signatures that the tables ask for; the name says from which version
// on. A null context is one that was never made: it has no opinion.

ncclResult_t initV2(size_t nRanks, size_t nNodes, ncclDebugLogger_t logger, void** context);
ncclResult_t initV5(void** context, uint64_t commId, size_t nRanks, size_t nNodes,
                    ncclDebugLogger_t logger, ncclNvlDomainInfo_v5_t* domains,
                    ncclTunerConstants_v5_t* constants);
ncclResult_t destroyTuner(void* context);

// Never says a number of channels: what is above the communicator's is only known to be cut from
// version 3 on.
ncclResult_t getCollInfoV2(void* context, ncclFunc_t collective, size_t nBytes, int collNetSupport,
                           int nvlsSupport, int nPipeOps, int* algorithm, int* protocol,
                           int* nChannels);
ncclResult_t getCollInfoV3(void* context, ncclFunc_t collective, size_t nBytes, int nPipeOps,
                           float** costs, int nAlgorithms, int nProtocols, int* nChannels);
ncclResult_t getCollInfoV4(void* context, ncclFunc_t collective, size_t nBytes, int nPipeOps,
                           float** costs, int nAlgorithms, int nProtocols, int isRegistered,
                           int* nChannels);
ncclResult_t keepChunkSizeV6(void* context, ncclFunc_t collective, size_t nBytes, int algorithm,
                             int protocol, int nChannels, size_t* chunkSize);

}  // namespace cinch::tuner::abi
