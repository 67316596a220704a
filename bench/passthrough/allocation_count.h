// Counts the heap allocations of the calling thread, whoever makes them: the program's malloc takes
// the place of libc's for every library in the process.
#pragma once

#include <cstdint>

namespace cinch {

// Allocations by this thread since it started.
uint64_t allocationCount();

}  // namespace cinch
