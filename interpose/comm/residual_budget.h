// How much device memory this process keeps residuals in, on all its communicators together.
#pragma once

#include <cstdint>

#include "common/result.h"
#include "kernels/device_table.h"

namespace cinch {

// Counts `nBytes` that are about to be taken of the current device's memory. An error where that is
// more than CINCH_RESIDUAL_MEMORY says, or a fifth of what is free. Thread-safe.
Result<void> reserveForResiduals(const DeviceTable& device, uint64_t nBytes);
// They are no longer taken.
void returnToResidualBudget(uint64_t nBytes);
uint64_t bytesOfResiduals();

}  // namespace cinch
