#include "interpose/comm/trace_log.h"

#include <gtest/gtest.h>

namespace cinch {
namespace {

TEST(TraceLog, TheOldestSpansGiveWay) {
  TraceLog log;
  EXPECT_EQ(log.addTrack("a"), 0);
  EXPECT_EQ(log.addTrack("b"), 1);
  for (size_t i = 0; i < TraceLog::kMostSpans + 5; ++i)
    log.add({{std::to_string(i), 0, static_cast<double>(i), 1, {}}});
  log.countDropped();
  const TraceFigures figures = log.figures({});
  ASSERT_EQ(figures.spans.size(), TraceLog::kMostSpans);
  EXPECT_EQ(figures.spans.front().name, "5");
  EXPECT_EQ(figures.tracks, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(figures.dropped, 1u);
}

}  // namespace
}  // namespace cinch
