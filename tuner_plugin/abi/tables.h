// What libnccl-tuner-cinch.so exports: a table for each version, under the names that NCCL looks
// for. NCCL takes the newest that it knows.
#pragma once

#include "tuner_plugin/abi/tuner_v2.h"
#include "tuner_plugin/abi/tuner_v3.h"
#include "tuner_plugin/abi/tuner_v4.h"
#include "tuner_plugin/abi/tuner_v5.h"
#include "tuner_plugin/abi/tuner_v6.h"

#define CINCH_TUNER_TABLE extern __attribute__((visibility("default"))) const

extern "C" {
CINCH_TUNER_TABLE ncclTuner_v2_t ncclTunerPlugin_v2;
CINCH_TUNER_TABLE ncclTuner_v3_t ncclTunerPlugin_v3;
CINCH_TUNER_TABLE ncclTuner_v4_t ncclTunerPlugin_v4;
CINCH_TUNER_TABLE ncclTuner_v5_t ncclTunerPlugin_v5;
CINCH_TUNER_TABLE ncclTuner_v6_t ncclTunerPlugin_v6;
}

#undef CINCH_TUNER_TABLE
