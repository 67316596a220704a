// The layers of gradient buckets as the user states them (CINCH_LAYERS), for programs that do not
// say themselves where one layer ends. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "common/result.h"
#include "interpose/policy/layers/bucket_layout.h"

namespace cinch {

// One layer per line, in the order of the elements: bucket,elements[,dims[,name]]. Buckets count
// from 0 in the order of their AllReduces. Empty dims are unknown ones; a name is for the reader
// alone. Empty lines, what follows a '#', and a first line with the names of the columns are
// skipped. An error names the line and what it should hold.
Result<std::vector<BucketLayout>> parseLayerFile(std::string_view text);

}  // namespace cinch
