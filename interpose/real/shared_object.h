// Questions to the dynamic loader about what is mapped.
#pragma once

#include <string>
#include <vector>

namespace cinch {

// What every NCCL exports, and nothing else does: its strong names lead past every interposer.
inline constexpr const char* kNcclProbe = "pncclAllReduce";

// Exported by every build of Cinch that carries the name of NCCL, so that none is taken for it.
inline constexpr const char* kDropInMarker = "cinchDropIn";

// Where the object that holds `address` is mapped; null where none does. Works for any address.
const void* baseOf(const void* address);

// Path of the object that holds `address`, as the loader knows it; empty where none does.
std::string pathOf(const void* address);

// Paths of all mapped objects, in the order in which they were loaded. The program's own is empty.
std::vector<std::string> mappedObjects();

// A handle of the mapped object of that path, or of the one that holds `address`; null where there
// is none. It keeps the object mapped.
void* handleOf(const std::string& path);
void* handleOf(const void* address);

}  // namespace cinch
