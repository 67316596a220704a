// Stands in for the emulated CUDA runtime: this program exports the symbols that the host backend
// looks for. Everything happens at once; each call is remembered by name.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace cinch::test {

inline constexpr int kFakeError = 46;

// The one stream that is capturing, and its capture's id.
inline void* const kCapturingStream = reinterpret_cast<void*>(16);
inline constexpr unsigned long long kFakeCapture = 77;
// Another one, whose capture is broken.
inline void* const kBrokenStream = reinterpret_cast<void*>(32);

// Names of the runtime functions called since the list was cleared.
std::vector<std::string>& runtimeCalls();

// What was loaded as a kernel.
std::set<const void*>& loadedKernels();

}  // namespace cinch::test
