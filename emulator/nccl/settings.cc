#include "emulator/nccl/settings.h"

#include <cstddef>

namespace cinch::emulator {
namespace {

// True where `config`, which may come from an older release, has the field at `offset`.
bool hasField(const ncclConfig_t& config, size_t offset, size_t size) {
  return config.size >= offset + size;
}

}  // namespace

Result<void> readConfig(const ncclConfig_t* config, const char* function,
                        CommunicatorSettings* settings) {
  if (config == nullptr) return {};
  if (config->magic != NCCL_CONFIG_MAGIC) {
    return errorf(Status::invalidArgument, "%s: config was not made with NCCL_CONFIG_INITIALIZER",
                  function);
  }
  if (config->blocking != NCCL_CONFIG_UNDEF_INT && config->blocking != 0 && config->blocking != 1) {
    return errorf(Status::invalidArgument, "%s: config.blocking is %d instead of 0 or 1", function,
                  config->blocking);
  }
  settings->blocking = config->blocking != 0;
  if (config->netName != nullptr) settings->netName = config->netName;
  if (hasField(*config, offsetof(ncclConfig_t, trafficClass), sizeof config->trafficClass)) {
    const bool given = config->trafficClass != NCCL_CONFIG_UNDEF_INT;
    settings->trafficClass = given ? config->trafficClass : kNetNoTrafficClass;
  }
  if (hasField(*config, offsetof(ncclConfig_t, commName), sizeof config->commName) &&
      config->commName != nullptr) {
    settings->name = config->commName;
  }
  return {};
}

}  // namespace cinch::emulator
