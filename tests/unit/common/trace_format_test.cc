#include "common/trace_format.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace cinch {
namespace {

using Json = nlohmann::json;

const ReportOrigin kOrigin = {"0.1", "host", 77, "", 1000, 1010.5};

TEST(TraceFormat, NothingIsATraceAsWell) {
  const Json trace = Json::parse(formatTrace({kOrigin, {}, {}, 3}));
  EXPECT_EQ(trace.at("otherData").at("dropped"), 3);
  ASSERT_EQ(trace.at("traceEvents").size(), 1u);
  EXPECT_EQ(trace.at("traceEvents")[0].at("args").at("name"), "host, process 77");
}

TEST(TraceFormat, SpansAreCompleteEventsOnTheirTrack) {
  const TraceFigures figures = {kOrigin,
                                {"comm: host", "comm: stream"},
                                {{"AllReduce", 1, 1795471692486291.25, 12.5, {{"codec", "q4"}}}},
                                0};
  const Json events = Json::parse(formatTrace(figures)).at("traceEvents");
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[2].at("ph"), "M");
  EXPECT_EQ(events[2].at("tid"), 1);
  EXPECT_EQ(events[2].at("args").at("name"), "comm: stream");
  const Json& span = events[3];
  EXPECT_EQ(span.at("ph"), "X");
  EXPECT_EQ(span.at("pid"), 77);
  EXPECT_EQ(span.at("tid"), 1);
  EXPECT_EQ(span.at("ts"), 1795471692486291.25) << "to a fraction of a microsecond";
  EXPECT_EQ(span.at("dur"), 12.5);
  EXPECT_EQ(span.at("args"), (Json{{"codec", "q4"}}));
}

TEST(TraceFormat, AnyBytesAreAName) {
  const TraceFigures figures = {
      {"0.1", "ho\"st\xff\n", 1, "", 0, 0}, {"\x80\\"}, {{"\xc3(", 0, 0, 0, {{"a\"", "\xfe"}}}}, 0};
  EXPECT_EQ(Json::parse(formatTrace(figures)).at("traceEvents").size(), 3u);
}

}  // namespace
}  // namespace cinch
