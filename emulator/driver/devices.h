// The driver's devices are the runtime's.
#pragma once

namespace cinch::driver {

bool isDevice(int device);

}  // namespace cinch::driver
