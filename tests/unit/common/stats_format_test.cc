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
  CommFigures comm{"comm 1 rank 0 of 4", 0, 4, "compress", {}, {}, {}};
  comm.slots.push_back({"AllReduce fp32 Sum x 4194304", "q4", 0.1, 200, 3355443200, 668467200, 7.53,
                        0.0034, 0.0031, 2});
  comm.slots.push_back({"AllReduce bf16 Avg x 9", "q8", 0, 7, 126, 96, 1.97, 0.5, 0.25, 0});
  comm.passed = {{"small", 12, 480}, {"warmup", 4, 1024}};
  comm.calls = {{"AllReduce fp32 Sum x 4194304",
                 "gradient",
                 204,
                 3422552064,
                 200,
                 "q4",
                 "compressed",
                 {{"compressed", 200}, {"warmup", 4}}},
                {"AllReduce fp32 Sum x 10", "unknown", 12, 480, 0, "", "small", {{"small", 12}}}};
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
  EXPECT_EQ(report.at("format"), 2);
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
                            "residual_bytes": 0, "residual_resets": 2, "residual_strangers": 0,
                            "residual_overflows": 0, "plans": 0, "bits_per_value": 0.0,
                            "codec_in_force": null,
                            "guard": {"checks": 0, "breaches": 0, "nmse": 0.0,
                                      "power_ratio": 0.0, "cosine": 0.0, "budget": 0.0},
                            "sending": {"choice": "plain", "min_bytes": 0, "plain_ms": 0.0,
                                        "stateless_ms": 0.0, "full_ms": 0.0,
                                        "sd_percent": [0.0, 0.0, 0.0], "periods": 0,
                                        "examinations": 0, "examined_at": 0, "changes": 0}})"));
  EXPECT_EQ(comm.at("calls").size(), 2u);
  EXPECT_EQ(comm.at("calls").at(0),
            json::parse(R"({"name": "AllReduce fp32 Sum x 4194304", "class": "gradient",
                            "calls": 204, "bytes": 3422552064, "compressed": 200, "codec": "q4",
                            "latest": "compressed", "evidence": null,
                            "outcomes": {"compressed": 200, "warmup": 4}})"));
  EXPECT_TRUE(comm.at("calls").at(1).at("codec").is_null());
  EXPECT_EQ(comm.at("passed"), json::parse(R"({"small": {"calls": 12, "bytes": 480},
                                               "warmup": {"calls": 4, "bytes": 1024}})"));
  EXPECT_EQ(comm.at("totals"), json::parse(R"({"compressed_calls": 207, "bytes_in": 3355443326,
                            "wire_bytes": 668467296, "passed_calls": 16, "passed_bytes": 1504})"));
}

TEST(StatsFormat, TellsHowMuchOfTheGpuTheCodecTakes) {
  CommFigures comm = exampleComm();
  const auto jsonOf = [&] { return json::parse(formatJson({comm})).at("communicators").at(0); };
  EXPECT_TRUE(jsonOf().at("sms").is_null());
  EXPECT_EQ(formatText({comm}).find("SMs"), std::string::npos);
  comm.nUsedSms = 33;
  comm.nSms = 132;
  EXPECT_EQ(jsonOf().at("sms"), json::parse(R"({"used": 33, "there": 132})"));
  EXPECT_NE(
      formatText({comm}).find("the codec's kernels have as many CTAs as fit on 33 of 132 SMs\n"),
      std::string::npos);
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

TEST(StatsFormat, TheTableOfCallsIsAligned) {
  const std::vector<std::string> lines = linesOf(formatCalls(exampleComm().calls));
  ASSERT_EQ(lines.size(), 3u);
  for (const char* part : {"taken for", "compressed", "codec", "latest"})
    EXPECT_NE(lines[0].find(part), std::string::npos) << part;
  for (const char* part : {"AllReduce fp32 Sum x 10 ", "unknown", "12", "480", " - ", "small"})
    EXPECT_NE(lines[2].find(part), std::string::npos) << part;
  EXPECT_EQ(lines[0].size(), lines[1].size());
  EXPECT_EQ(lines[1].size(), lines[2].size());
}

TEST(StatsFormat, WhatFewSlotsHaveIsOnlyShownThere) {
  CommFigures comm = exampleComm();
  const std::string without = formatText({comm});
  for (const char* part : {"in force", "bits per value", "precision", "dropped", "guard"})
    EXPECT_EQ(without.find(part), std::string::npos) << part;
  SlotFigures& slot = comm.slots[1];
  slot.strangers = 3;
  slot.overflows = 4;
  slot.plans = 5;
  slot.bitsPerValue = 2.75;
  slot.codecInForce = "q6";
  slot.guard = {6, 1, 0.01, 1.25, 0.995, 0.02};
  const std::string text = formatText({comm});
  EXPECT_NE(text.find("  AllReduce bf16 Avg x 9: q6 in force, 2.75 bits per value, 5 changes of "
                      "precision, 3 residuals of other buffers dropped, 4 residuals out of "
                      "proportion dropped, guard: 6 checks, 1 beyond the budget, last nmse 0.01 of "
                      "0.02 allowed, power 1.25 of the exact result's, cosine 0.995\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(linesOf(text).size(), linesOf(without).size() + 1);
  const json shown = json::parse(formatJson({comm})).at("communicators").at(0).at("slots").at(1);
  EXPECT_EQ(shown.at("residual_strangers"), 3);
  EXPECT_EQ(shown.at("residual_overflows"), 4);
  EXPECT_EQ(shown.at("plans"), 5);
  EXPECT_EQ(shown.at("bits_per_value"), 2.75);
  EXPECT_EQ(shown.at("codec_in_force"), "q6");
  slot.codecInForce = slot.codec;
  EXPECT_EQ(formatText({comm}).find("in force"), std::string::npos) << "nothing has changed";
  EXPECT_EQ(shown.at("guard"), json::parse(R"({"checks": 6, "breaches": 1, "nmse": 0.01,
                                               "power_ratio": 1.25, "cosine": 0.995,
                                               "budget": 0.02})"));
}

// A rank's shard goes to all others; what passes otherwise may be an AllReduce, which sends its
// bytes twice.
TEST(StatsFormat, GathersThatPassAreWeighedAgainstAllThatIsSent) {
  CommFigures comm = exampleComm();
  comm.slots = {{"ReduceScatter fp32 Sum x 1000", "q8", 0, 10, 4000, 3000, 4, 0, 0, 0}};
  comm.passed = {{"small", 5, 500}};
  EXPECT_EQ(gatheredShare(comm), 0);
  EXPECT_EQ(gatheredRemark(comm), "");
  comm.passed.push_back({"gathered", 10, 4000});
  EXPECT_DOUBLE_EQ(gatheredShare(comm), 12000.0 / 16000);
  EXPECT_EQ(gatheredRemark(comm).substr(0, 15), "75 % of what is");
  EXPECT_NE(formatText({comm}).find("\n  75 % of what is sent are gathers"), std::string::npos);
  const json found = json::parse(formatJson({comm}));
  EXPECT_DOUBLE_EQ(found.at("communicators").at(0).at("gathered_share"), 0.75);
}

TEST(StatsFormat, FewGathersOrAJobThatCompressesNothingNeedNoRemark) {
  CommFigures comm = exampleComm();
  comm.passed = {{"gathered", 10, comm.totals().wireBytes / 3 - 1}};
  EXPECT_LT(gatheredShare(comm), 0.5);
  EXPECT_EQ(gatheredRemark(comm), "");
  comm.slots.clear();
  EXPECT_EQ(gatheredShare(comm), 1);
  EXPECT_EQ(gatheredRemark(comm), "");
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
    comm.slots[0].codecInForce = comm.calls[0].name = comm.calls[0].codec = name;
    const json report = json::parse(formatJson({comm}));
    EXPECT_EQ(report.at("communicators").at(0).at("slots").at(0).at("calls"), 200);
    EXPECT_EQ(linesOf(formatText({comm})).size(), nLines + 1) << "the slot has a remark";
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
