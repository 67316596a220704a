// Files that a reader never sees half written.
#pragma once

#include <string>

#include "common/result.h"

namespace cinch {

// Writes a temporary file beside `path` and renames it over the old one. The temporary name is this
// process's own, since ranks may share a path; one thread of a process at a time writes to a path.
// An error names the file and the cause.
Result<void> replaceFile(const std::string& path, const std::string& content);

}  // namespace cinch
