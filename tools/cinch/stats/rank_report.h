// A report of CINCH_STATS, read back: the inverse of common/stats_format.h's JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/result.h"
#include "common/stats_format.h"

namespace cinch::stats {

struct RankReport {
  ReportOrigin origin;
  std::vector<CommFigures> comms;  // without calls
};

// Fields of a newer version are ignored. An error says why the text is no report.
Result<RankReport> parseReport(const std::string& text);

}  // namespace cinch::stats
