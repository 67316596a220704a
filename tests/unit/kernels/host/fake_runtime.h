// Stands in for the emulated CUDA runtime: this program exports the symbols that the host backend
// looks for. Everything happens at once; each call is remembered by name.
#pragma once

#include <string>
#include <vector>

namespace cinch::test {

inline constexpr int kFakeError = 46;

// Names of the runtime functions called since the list was cleared.
std::vector<std::string>& runtimeCalls();

}  // namespace cinch::test
