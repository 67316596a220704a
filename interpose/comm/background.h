// One thread of this process for what must not happen on the call path.
#pragma once

#include <functional>

namespace cinch {

// Runs `task` soon, and again and again until it returns true, by turns with others. False where
// there is no thread, nor can be, or the process is a fork of the one that has it: the task will
// not run. Nor will it once the process has begun to exit. Thread-safe.
bool runInBackground(std::function<bool()> task);

}  // namespace cinch
