// Files that may hold the real NCCL, for the case that nobody has loaded it: Cinch stands in for
// libnccl.so.2, so that the loader was satisfied before it came to the real one.
#pragma once

#include <string>
#include <vector>

namespace cinch {

// Existing files that export NCCL's functions and are not Cinch, best first: where the loader looks
// for the dependencies of the code at `caller` (RPATH, LD_LIBRARY_PATH, RUNPATH, the system's
// folders), beside it and beside every other mapped object as Python packages lie, and what
// ldconfig knows.
std::vector<std::string> ncclFiles(const void* caller);

}  // namespace cinch
