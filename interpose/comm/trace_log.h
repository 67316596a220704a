// The process's trace: what its communicators have sampled, until it is written to CINCH_TRACE.
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "common/trace_format.h"

namespace cinch {

// The newest spans, as many as kMostSpans. Any thread may use it.
class TraceLog {
 public:
  static constexpr size_t kMostSpans = 20000;

  // The number of a new track.
  int addTrack(std::string name);
  // Those of one call. The oldest ones give way.
  void add(std::vector<TraceSpan> spans);
  void countDropped();

  TraceFigures figures(ReportOrigin origin) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> tracks_;
  std::deque<TraceSpan> spans_;
  uint64_t dropped_ = 0;
};

TraceLog& processTrace();

}  // namespace cinch
