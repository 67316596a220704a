#include "tools/cinch/bench/outcome.h"

#include <gtest/gtest.h>

namespace cinch::bench {
namespace {

constexpr const char* kReport = R"({"communicators": [
  {"ranks": 1, "calls": [], "slots": []},
  {"ranks": 4,
   "calls": [{"name": "AllReduce fp32 Sum x 9", "calls": 12, "compressed": 8, "latest": "compressed"},
             {"name": "AllReduce fp32 Sum x 1", "calls": 5, "compressed": 0, "latest": "small"}],
   "slots": [{"name": "AllReduce fp32 Sum x 9", "codec": "q4", "codec_in_force": null, "gain": 0.5,
              "calls": 8, "wire_bytes": 80}]}]})";

TEST(Outcome, IsReadFromTheReport) {
  const CallRecord record = recordOf(kReport, "AllReduce fp32 Sum x 9", 4).value();
  EXPECT_EQ(record.calls, 12u);
  EXPECT_EQ(record.compressed, 8u);
  EXPECT_EQ(record.latest, "compressed");
  EXPECT_EQ(record.codec, "q4");
  EXPECT_EQ(record.gain, 0.5);
  EXPECT_EQ(record.wireBytesPerCall, 10);
}

TEST(Outcome, OfPassedCallsIsTheReason) {
  const CallRecord record = recordOf(kReport, "AllReduce fp32 Sum x 1", 4).value();
  EXPECT_EQ(record.latest, "small");
  EXPECT_EQ(record.codec, "");
  EXPECT_EQ(record.wireBytesPerCall, 0);
}

TEST(Outcome, OfUnknownCallsIsNothing) {
  EXPECT_EQ(recordOf(kReport, "AllReduce fp32 Sum x 2", 4).value().calls, 0u);
  EXPECT_EQ(recordOf(kReport, "AllReduce fp32 Sum x 9", 8).value().calls, 0u);
}

TEST(Outcome, BadReportsAreRefused) {
  for (const char* text : {"", "[]", "{\"communicators\": [{}]}", "{\"communicators\": 3}"})
    EXPECT_FALSE(recordOf(text, "x", 1).ok()) << text;
}

TEST(Outcome, PathFollowsFromTheCounts) {
  const auto path = [](uint64_t compressed) {
    CallRecord before, after;
    before.compressed = 4;
    after.compressed = compressed;
    return pathOf(before, after, 6);
  };
  EXPECT_EQ(path(4), Path::passed);
  EXPECT_EQ(path(9), Path::mixed);
  EXPECT_EQ(path(10), Path::compressed);
  EXPECT_STREQ(nameOf(Path::mixed), "mixed");
}

}  // namespace
}  // namespace cinch::bench
