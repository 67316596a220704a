#include "interpose/comm/trace_log.h"

namespace cinch {

int TraceLog::addTrack(std::string name) {
  const std::lock_guard lock(mutex_);
  tracks_.push_back(std::move(name));
  return static_cast<int>(tracks_.size()) - 1;
}

void TraceLog::add(std::vector<TraceSpan> spans) {
  const std::lock_guard lock(mutex_);
  for (TraceSpan& span : spans) spans_.push_back(std::move(span));
  while (spans_.size() > kMostSpans) spans_.pop_front();
}

void TraceLog::countDropped() {
  const std::lock_guard lock(mutex_);
  ++dropped_;
}

TraceFigures TraceLog::figures(ReportOrigin origin) const {
  const std::lock_guard lock(mutex_);
  return {std::move(origin), tracks_, {spans_.begin(), spans_.end()}, dropped_};
}

TraceLog& processTrace() {
  static auto& log = *new TraceLog;
  return log;
}

}  // namespace cinch
