// Version 6: NCCL 2.30 and later.
#include "tuner_plugin/abi/adapter.h"
#include "tuner_plugin/abi/tables.h"

using namespace cinch::tuner::abi;

const ncclTuner_v6_t ncclTunerPlugin_v6 = {
    .name = kPluginName,
    .init = initV5,
    .getCollInfo = getCollInfoV4,
    .finalize = destroyTuner,
    .getChunkSize = keepChunkSizeV6,
};
