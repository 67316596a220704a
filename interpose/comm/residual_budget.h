// How much memory of each device this process keeps residuals in, on all its communicators
// together. Thread-safe.
#pragma once

#include <cstdint>

#include "common/result.h"
#include "kernels/device_table.h"

namespace cinch {

// Counts `nBytes` that are about to be taken of the current device's memory. An error where that is
// more than CINCH_RESIDUAL_MEMORY says, or a fifth of what is free.
Result<void> reserveForResiduals(const DeviceTable& device, uint64_t nBytes);
// The same of what is taken in any case, since something else is given back for it.
void countForResiduals(const DeviceTable& device, uint64_t nBytes);
// They are no longer taken of the device with this number.
void returnToResidualBudget(int cudaDevice, uint64_t nBytes);
uint64_t bytesOfResiduals(int cudaDevice);

}  // namespace cinch
