// Files that a user writes for Cinch.
#pragma once

#include <string>

#include "common/result.h"

namespace cinch {

// The content of a regular file. The error names no path.
Result<std::string> readTextFile(const std::string& path);

inline constexpr size_t kMaxTextFileBytes = 8 << 20;

}  // namespace cinch
