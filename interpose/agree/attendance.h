#pragma once

#include <cstddef>

namespace cinch {

// The ranks that a session has, and how many of them have not left.
struct Attendance {
  size_t nMembers = 0;
  size_t present = 0;
};

}  // namespace cinch
