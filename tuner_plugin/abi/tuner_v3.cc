// Version 3: NCCL 2.22 and later.
#include "tuner_plugin/abi/adapter.h"
#include "tuner_plugin/abi/tables.h"

using namespace cinch::tuner::abi;

const ncclTuner_v3_t ncclTunerPlugin_v3 = {
    .name = kPluginName,
    .init = initV2,
    .getCollInfo = getCollInfoV3,
    .destroy = destroyTuner,
};
