#include "tools/cinch/stats/rank_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace cinch::stats {
namespace {

CommFigures exampleComm(std::mt19937_64& random) {
  const auto any = [&] { return random() >> 8; };
  const auto fraction = [&] { return static_cast<double>(random() % 1000) / 997; };
  CommFigures comm{"communicator 1 rank 2 of 4", 2, 4, "compress", {}, {}, {}, "shared"};
  for (uint64_t i = random() % 4; i > 0; --i) {
    SlotFigures slot;
    slot.name = "AllReduce fp32 Sum x " + std::to_string(any());
    slot.codec = "q4";
    slot.calls = any();
    slot.bytesIn = any();
    slot.wireBytes = any();
    slot.nmse = random() % 3 == 0 ? NAN : fraction();
    slot.ratio = fraction();
    slot.residualResets = any();
    slot.codecInForce = random() % 2 == 0 ? "" : "q8";
    slot.guard.breaches = any();
    slot.sending.choice = "full";
    slot.sending.milliseconds[2] = 1.5;
    comm.slots.push_back(slot);
  }
  comm.passed = {{"small", any(), any()}, {"warmup \"\\\n", any(), any()}};
  return comm;
}

// What is read is what was written, figure by figure: written again it is the same text.
TEST(RankReport, ReadsWhatTheLibraryWrites) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    const std::vector<CommFigures> comms = {exampleComm(random), exampleComm(random)};
    const ReportOrigin origin = {"0.1", "host", 12, i % 2 == 0 ? "" : "77", 1.5, 1e9 + i};
    const std::string text = formatJson(comms, origin);
    const auto report = parseReport(text);
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_EQ(formatJson(report.value().comms, report.value().origin), text);
  }
}

TEST(RankReport, SaysWhatIsNoReport) {
  for (const char* text : {"", "{", "[]", "{}", "null", "{\"format\": 2}",
                           R"({"format": 2, "origin": {}, "communicators": []})"}) {
    const auto report = parseReport(text);
    ASSERT_FALSE(report.ok()) << text;
    EXPECT_NE(report.error().message.find("CINCH_STATS"), std::string::npos)
        << report.error().message;
  }
  const auto newer = parseReport(R"({"format": 3})");
  ASSERT_FALSE(newer.ok());
  EXPECT_NE(newer.error().message.find("another format"), std::string::npos);
}

// Whatever became of the file.
TEST(RankReport, TakesNoPartOfAReportForOne) {
  std::mt19937_64 random(2);
  const std::string text = formatJson({exampleComm(random)}, {"0.1", "host", 1});
  for (size_t length = 0; length + 2 < text.size(); length += 7) {
    EXPECT_FALSE(parseReport(text.substr(0, length)).ok());
  }
}

}  // namespace
}  // namespace cinch::stats
