// Version 4: NCCL 2.24 and later.
#include "tuner_plugin/abi/adapter.h"
#include "tuner_plugin/abi/tables.h"

using namespace cinch::tuner::abi;

const ncclTuner_v4_t ncclTunerPlugin_v4 = {
    .name = kPluginName,
    .init = initV2,
    .getCollInfo = getCollInfoV4,
    .destroy = destroyTuner,
};
