// Statistics of buffers on the CPU.
#pragma once

#include "kernels/device_table.h"

namespace cinch::host {

// As TallyLaunch says; synchronous.
void tallyTiles(const TallyLaunch& launch);

}  // namespace cinch::host
