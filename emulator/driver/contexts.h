// Contexts: each device has its primary one, and there are no others.
#pragma once

#include "emulator/include/cuda.h"

namespace cinch::driver {

// The handle of a device's context; null for -1, which stands for no device.
CUcontext contextOf(int device);
// The device of a context; -1 where it is none.
int deviceOf(CUcontext context);

}  // namespace cinch::driver
