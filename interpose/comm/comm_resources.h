// What a rank gets before it says hello, so that a rank which cannot is known to all.
#pragma once

#include "interpose/comm/buffer.h"

namespace cinch {

struct CommResources {
  const DeviceTable* device = nullptr;
  int cudaDevice = 0;
  SmShare sms;
  Buffer fault;  // one word that refused peer bytes set

  // For the current device.
  static Result<CommResources> allocate(bool emulator);
  // Loads the codecs' kernels onto the current device, which only the first call does: in the first
  // creator call, also of a communicator that passes, since what it does could be waited for later.
  // Whether that went well is for allocate() to say.
  static void loadKernels(bool emulator);
};

}  // namespace cinch
