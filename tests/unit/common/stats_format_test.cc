#include "common/stats_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

namespace cinch {
namespace {

using nlohmann::json;

CommFigures exampleComm() {
  CommFigures comm{"comm 1 rank 0 of 4", 0, 4, "compress", {}, {}};
  comm.slots.push_back({"AllReduce fp32 Sum x 4194304", "q4", 0.1, 200, 3355443200, 668467200, 7.53,
                        0.0034, 0.0031, 2});
  comm.slots.push_back({"AllReduce bf16 Avg x 9", "q8", 0, 7, 126, 96, 1.97, 0.5, 0.25, 0});
  comm.passed = {{"small", 12, 480}, {"warmup", 4, 1024}};
  return comm;
}

std::vector<std::string> linesOf(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(StatsFormat, JsonHoldsEveryFigure) {
  const json report = json::parse(formatJson({exampleComm()}));
  EXPECT_EQ(report.at("format"), 1);
  const json& comm = report.at("communicators").at(0);
  EXPECT_EQ(comm.at("name"), "comm 1 rank 0 of 4");
  EXPECT_EQ(comm.at("rank"), 0);
  EXPECT_EQ(comm.at("ranks"), 4);
  EXPECT_EQ(comm.at("verdict"), "compress");
  EXPECT_EQ(comm.at("slots").size(), 2u);
  EXPECT_EQ(comm.at("slots").at(0),
            json::parse(R"({"name": "AllReduce fp32 Sum x 4194304", "codec": "q4", "gain": 0.1,
                            "calls": 200, "bytes_in": 3355443200, "wire_bytes": 668467200,
                            "ratio": 7.53, "nmse": 0.0034, "nmse_reduce": 0.0031,
                            "residual_resets": 2})"));
  EXPECT_EQ(comm.at("passed"), json::parse(R"({"small": {"calls": 12, "bytes": 480},
                                               "warmup": {"calls": 4, "bytes": 1024}})"));
  EXPECT_EQ(comm.at("totals"), json::parse(R"({"compressed_calls": 207, "bytes_in": 3355443326,
                            "wire_bytes": 668467296, "passed_calls": 16, "passed_bytes": 1504})"));
}

TEST(StatsFormat, TotalsAddUpOverCommunicators) {
  const json report = json::parse(formatJson({exampleComm(), exampleComm(), exampleComm()}));
  EXPECT_EQ(report.at("communicators").size(), 3u);
  EXPECT_EQ(report.at("totals").at("compressed_calls"), 3 * 207);
  EXPECT_EQ(report.at("totals").at("wire_bytes"), 3 * 668467296ull);
  EXPECT_EQ(report.at("totals").at("passed_bytes"), 3 * 1504);
}

TEST(StatsFormat, NothingYetIsStillAReport) {
  const json report = json::parse(formatJson({}));
  EXPECT_TRUE(report.at("communicators").empty());
  EXPECT_EQ(report.at("totals").at("compressed_calls"), 0);
  EXPECT_NE(formatText({}).find("compressed 0 calls"), std::string::npos);
}

TEST(StatsFormat, TextHoldsTheFiguresInAlignedColumns) {
  const std::string text = formatText({exampleComm()});
  for (const char* part : {"comm 1 rank 0 of 4: compress", "3355443200", "668467200", "7.53",
                           "0.0034", "0.0031", "small", "480", "compressed 207 calls"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
  const std::vector<std::string> lines = linesOf(text);
  ASSERT_GE(lines.size(), 9u);
  EXPECT_EQ(lines[3].size(), lines[4].size()) << text;  // heading and rows of the slots
  EXPECT_EQ(lines[4].size(), lines[5].size()) << text;
  EXPECT_EQ(lines[6].size(), lines[7].size()) << text;  // of the passed calls
}

TEST(StatsFormat, FiguresThatAreNotFiniteAreNull) {
  CommFigures comm = exampleComm();
  comm.slots[0].nmse = std::numeric_limits<double>::quiet_NaN();
  comm.slots[0].nmseReduce = std::numeric_limits<double>::infinity();
  const json slot = json::parse(formatJson({comm})).at("communicators").at(0).at("slots").at(0);
  EXPECT_TRUE(slot.at("nmse").is_null());
  EXPECT_TRUE(slot.at("nmse_reduce").is_null());
  EXPECT_NE(formatText({comm}).find("nan"), std::string::npos);
}

// Names come from programs: every byte must leave JSON parsable and text on its lines.
TEST(StatsFormat, RandomNamesBreakNeitherForm) {
  std::mt19937 random(4);
  const size_t nLines = linesOf(formatText({exampleComm()})).size();
  for (int i = 0; i < 500; ++i) {
    std::string name;
    for (int length = 0; length < 40; ++length) name += static_cast<char>(random() % 256);
    CommFigures comm = exampleComm();
    comm.name = comm.verdict = comm.slots[0].name = comm.passed[0].reason = name;
    const json report = json::parse(formatJson({comm}));
    EXPECT_EQ(report.at("communicators").at(0).at("slots").at(0).at("calls"), 200);
    EXPECT_EQ(linesOf(formatText({comm})).size(), nLines);
  }
}

TEST(StatsFormat, QuotesAndBackslashesComeBack) {
  CommFigures comm = exampleComm();
  comm.slots[0].name = "a \"quoted\\name\"\n\t";
  const json report = json::parse(formatJson({comm}));
  EXPECT_EQ(report.at("communicators").at(0).at("slots").at(0).at("name"), comm.slots[0].name);
}

TEST(WireRatio, ComparesWithARing) {
  EXPECT_DOUBLE_EQ(wireRatio(4000, 3000, 4), 2.0);  // a ring of 4 sends 1.5 times the buffer
  EXPECT_DOUBLE_EQ(wireRatio(4000, 1000, 2), 4.0);
  EXPECT_EQ(wireRatio(4000, 0, 4), 0);
  EXPECT_EQ(wireRatio(4000, 100, 0), 0);
  EXPECT_EQ(wireRatio(4000, 100, 1), 0);
}

}  // namespace
}  // namespace cinch
