// Version 5: NCCL 2.28 and later.
#include "tuner_plugin/abi/adapter.h"
#include "tuner_plugin/abi/tables.h"

using namespace cinch::tuner::abi;

const ncclTuner_v5_t ncclTunerPlugin_v5 = {
    .name = kPluginName,
    .init = initV5,
    .getCollInfo = getCollInfoV4,
    .finalize = destroyTuner,
};
