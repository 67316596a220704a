// What a communicator is asked to be.
#pragma once

#include <string>

#include "common/nccl_types.h"
#include "common/result.h"
#include "emulator/nccl/net.h"

namespace cinch::emulator {

struct CommunicatorSettings {
  int rank = 0;
  int nRanks = 1;
  int device = 0;
  bool blocking = true;
  int trafficClass = kNetNoTrafficClass;
  std::string netName = {};  // of the wanted network; empty: any
  std::string name = {};     // for the log
};

// Takes what `config` says, which may be null or from an older release. Fails where it was not made
// with NCCL_CONFIG_INITIALIZER.
Result<void> readConfig(const ncclConfig_t* config, const char* function,
                        CommunicatorSettings* settings);

}  // namespace cinch::emulator
