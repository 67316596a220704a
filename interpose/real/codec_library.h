// Loads the codec library that fits the process: CUDA's for a real NCCL, the host's for the
// emulator's.
#pragma once

#include "common/result.h"
#include "kernels/device_table.h"

namespace cinch {

// The device table, initialised; loaded once for each kind and kept. The file lies beside this
// library or in the folder above. Errors say what could not be loaded and why. Thread-safe.
Result<const DeviceTable*> loadCodecLibrary(bool emulator);

}  // namespace cinch
