// How the merged reports of a job look. Pure.
#pragma once

#include "tools/cinch/stats/merge.h"

namespace cinch::stats {

// Tables for people. `now`: seconds since 1970.
std::string viewText(const Merged& merged, double now);

// One object with "format": 1, on one line.
std::string viewJson(const Merged& merged);

}  // namespace cinch::stats
