// One thread of this process for what must not happen on the call path.
#pragma once

#include <functional>

#include "kernels/device_table.h"

namespace cinch {

// On the thread below: makes `device` current for what the task does, and for what it destroys. It
// is not put back: whichever device was current before, CUDA would make a context on it.
void useDevice(const DeviceTable& table, int device);

// Runs `task` soon, and again and again until it returns true, by turns with others. False where
// there is no thread, nor can be, or the process is a fork of the one that has it: the task will
// not run. Nor will it once the process has begun to exit. Thread-safe.
bool runInBackground(std::function<bool()> task);

}  // namespace cinch
