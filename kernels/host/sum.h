// Sums of buffers on the CPU.
#pragma once

#include "kernels/device_table.h"

namespace cinch::host {

// As SumLaunch says; synchronous.
void sumParts(const SumLaunch& launch);

}  // namespace cinch::host
