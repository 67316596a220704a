#include "common/metrics_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace cinch {
namespace {

const ReportOrigin kOrigin = {"0.1", "host", 77, "", 1000, 1010.5};

CommFigures commOf(int number) {
  CommFigures comm{"communicator " + std::to_string(number) + " rank 1 of 4", 1, 4, "", {}, {}, {}};
  SlotFigures slot;
  slot.name = "AllReduce fp32 Sum x 10";
  slot.codec = "q4";
  slot.calls = 3;
  slot.bytesIn = (uint64_t{1} << 53) + 2;
  slot.wireBytes = 99;
  slot.nmse = .25;
  comm.slots = {slot, slot};  // two slots of the same call
  comm.passed = {{"small", 12, 480}, {"warmup", 4, 1024}};
  return comm;
}

std::vector<std::string> linesOf(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// As the format is described at prometheus.io: what all lines have to look like.
void expectValid(const std::string& text) {
  const std::regex sample(
      R"re(([a-z_]+)\{([a-z_]+="([^"\\]|\\[\\"n])*"(,[a-z_]+="([^"\\]|\\[\\"n])*")*)?\} ([-+0-9.e]+))re");
  const std::regex head(R"(# (HELP|TYPE) ([a-z_]+) (.+))");
  std::set<std::string> seen, begun;
  std::string metric;
  for (const std::string& line : linesOf(text)) {
    std::smatch match;
    if (std::regex_match(line, match, head)) {
      const bool isFirst = match[1] == "HELP" && begun.insert(metric = match[2]).second;
      EXPECT_EQ(isFirst, match[1] == "HELP") << line;
      EXPECT_EQ(match[2], metric);
      continue;
    }
    ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
    EXPECT_EQ(match[1], metric) << "its samples do not stand together";
    EXPECT_TRUE(seen.insert(line.substr(0, line.rfind(' '))).second) << "twice: " << line;
  }
  EXPECT_TRUE(text.empty() || text.back() == '\n');
}

TEST(MetricsFormat, EachSampleStandsOnceBelowItsHead) {
  expectValid(formatMetrics({}, kOrigin));
  expectValid(formatMetrics({commOf(1), commOf(2)}, kOrigin));
}

TEST(MetricsFormat, HoldsTheFigures) {
  const std::string text = formatMetrics({commOf(1)}, kOrigin);
  const std::string labels =
      R"(process="77",rank="1",ranks="4",communicator="communicator 1 rank 1 of 4")";
  const std::string slot = labels + R"(,slot="1",call="AllReduce fp32 Sum x 10",codec="q4")";
  for (const std::string& line :
       {std::string(R"(cinch_info{process="77",version="0.1",host="host"} 1)"),
        "cinch_compressed_calls_total{" + slot + "} 3", "cinch_wire_bytes_total{" + slot + "} 99",
        "cinch_payload_bytes_total{" + slot + "} 9007199254740994",
        "cinch_codec_nmse{" + slot + R"(,stage="encode"} 0.25)",
        "cinch_passed_calls_total{" + labels + R"(,reason="small"} 12)",
        "cinch_passed_bytes_total{" + labels + R"(,reason="warmup"} 1024)"}) {
    EXPECT_NE(text.find("\n" + line + "\n"), std::string::npos) << line << "\n" << text;
  }
}

TEST(MetricsFormat, LeavesOutWhatIsNotKnown) {
  CommFigures comm = commOf(1);
  comm.slots[0].nmse = NAN;
  comm.slots[1].nmse = 0;
  const std::string text = formatMetrics({comm}, kOrigin);
  EXPECT_EQ(text.find("nmse"), std::string::npos);
  EXPECT_EQ(text.find("nan"), std::string::npos);
}

TEST(MetricsFormat, AnyNameIsALabel) {
  CommFigures comm = commOf(1);
  comm.name = "a \"quoted\\ name\nof two lines";
  ReportOrigin origin = kOrigin;
  origin.batchJob = "4711";
  const std::string text = formatMetrics({comm}, origin);
  expectValid(text);
  EXPECT_NE(text.find(R"(communicator="a \"quoted\\ name\nof two lines")"), std::string::npos);
  EXPECT_NE(text.find(R"(slurm_job_id="4711")"), std::string::npos);
}

}  // namespace
}  // namespace cinch
