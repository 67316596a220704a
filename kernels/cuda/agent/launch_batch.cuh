// Launches of several calls in one grid: plane z does launch z, in as many rows as that has. For
// calls so small that a launch of its own costs each more than the work, and for what has no kernel
// of its own.
#pragma once

#include <cstdint>

namespace cinch::cuda {

template <class Launch>
struct LaunchBatch {
  // What a kernel may have of arguments on every device and toolkit.
  static constexpr uint32_t kMost = 4096 / sizeof(Launch);

  Launch launches[kMost];
};

}  // namespace cinch::cuda
