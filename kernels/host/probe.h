// Whose values lie in a buffer: the probe on the CPU.
#pragma once

#include "kernels/device_table.h"

namespace cinch::host {

// As ProbeLaunch says; synchronous.
void probeInput(const ProbeLaunch& launch);

}  // namespace cinch::host
