// Where reports go: a pair of files that a reader never sees half written.
#pragma once

#include <string>

#include "common/result.h"

namespace cinch {

// Writes path.txt and path.json, each to a temporary file beside it that is then renamed over the
// old one. The temporary name is this process's own, since ranks may share a path; one thread of a
// process at a time writes to a path. An error names the file and the cause.
Result<void> writeReportFiles(const std::string& path, const std::string& text,
                              const std::string& json);

}  // namespace cinch
