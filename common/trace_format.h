// The trace of sampled calls as text. Pure; what is traced is in interpose/comm/call_tracer.h.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/stats_format.h"

namespace cinch {

struct TraceSpan {
  std::string name;
  int track = 0;
  double start = 0, duration = 0;  // in microseconds, since 1970
  std::vector<std::pair<std::string, std::string>> arguments;
};

struct TraceFigures {
  ReportOrigin origin;
  std::vector<std::string> tracks;  // by their number
  std::vector<TraceSpan> spans;
  uint64_t dropped = 0;  // sampled calls that could not be traced, or gave way to newer ones
};

// The object form of the Trace Event Format, which chrome://tracing and ui.perfetto.dev open: a
// process named after host and number, a thread for each track, and a complete event for each span.
std::string formatTrace(const TraceFigures& figures);

}  // namespace cinch
