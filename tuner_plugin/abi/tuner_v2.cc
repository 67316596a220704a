// Version 2: NCCL 2.21 and later. There is no table of costs.
#include "tuner_plugin/abi/adapter.h"
#include "tuner_plugin/abi/tables.h"

using namespace cinch::tuner::abi;

const ncclTuner_v2_t ncclTunerPlugin_v2 = {
    .name = kPluginName,
    .init = initV2,
    .getCollInfo = getCollInfoV2,
    .destroy = destroyTuner,
};
