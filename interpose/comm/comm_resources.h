// What a rank gets before it says hello, so that a rank which cannot is known to all.
#pragma once

#include "interpose/comm/buffer.h"

namespace cinch {

struct CommResources {
  const DeviceTable* device = nullptr;
  int cudaDevice = 0;
  Buffer fault;  // one word that refused peer bytes set

  // For the current device.
  static Result<CommResources> allocate(bool emulator);
};

}  // namespace cinch
