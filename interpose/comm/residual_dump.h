// Writes a communicator's residuals to files, for debugging and for the check that nothing is lost:
// over a run, what went in minus what came out is what the residuals hold.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "interpose/comm/slot.h"

namespace cinch {

// Writes pattern.bin (per slot the whole bucket's stage 1 residual, then the owned shard's stage 2
// residual, as CINCH_RESIDUAL keeps them) and pattern.json, which says where each begins and of
// which type they are. %h and %p are expanded. Slots whose calls are summed inside the hosts first
// are left out: their ranks owe for each other. Nothing happens for an empty pattern; a failure is
// logged. Blocks on the device.
void dumpResiduals(const std::string& pattern, const DeviceTable& device,
                   const std::vector<std::unique_ptr<Slot>>& slots);

}  // namespace cinch
