#include "net_plugin/socket/statistics.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace cinch::net {
namespace {

using nlohmann::json;

// All different, so that no two can be mistaken for one another.
FlowCounters exampleCounters() {
  return {.openings = 3,
          .failedOpenings = 5,
          .losses = 2,
          .sentBytes = 3355443200,
          .receivedBytes = 668467200,
          .retransmissions = 17,
          .chunks = 51200,
          .repeatedChunks = 31,
          .damagedChunks = 7,
          .quarantines = 11};
}

NetworkFigures exampleNetwork() {
  FlowFigures open{exampleCounters(), "10.0.0.1:4000", "10.0.0.2:41234", true, 1.25e8, 230};
  NetworkFigures network;
  network.device = "eth0+eth1";
  network.strangers = 13;
  network.peers.push_back({"10.0.0.2:41234", false, "", {open, FlowFigures{}}});
  network.peers.push_back({"10.0.0.3:5", true, "lost 10.0.0.3:5: all flows are gone", {open}});
  return network;
}

std::vector<std::string> linesOf(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(NetStatistics, JsonHoldsEveryFigure) {
  const json report = json::parse(formatJson(exampleNetwork()));
  EXPECT_EQ(report.at("format"), 1);
  EXPECT_EQ(report.at("device"), "eth0+eth1");
  EXPECT_EQ(report.at("strangers"), 13);
  EXPECT_EQ(report.at("failed_accepts"), 0);
  EXPECT_EQ(report.at("forgotten_peers"), 0);
  ASSERT_EQ(report.at("peers").size(), 2u);
  const json& peer = report.at("peers").at(0);
  EXPECT_EQ(peer.at("name"), "10.0.0.2:41234");
  EXPECT_EQ(peer.at("gone"), false);
  EXPECT_TRUE(peer.at("error").is_null());
  ASSERT_EQ(peer.at("flows").size(), 2u);
  EXPECT_EQ(peer.at("flows").at(0), json::parse(R"({
      "local": "10.0.0.1:4000", "remote": "10.0.0.2:41234", "open": true,
      "bytes_per_second": 1.25e8, "round_trip_us": 230, "sent_bytes": 3355443200,
      "received_bytes": 668467200, "retransmissions": 17, "chunks": 51200, "repeated_chunks": 31,
      "damaged_chunks": 7, "quarantines": 11, "openings": 3, "losses": 2, "failed_openings": 5})"));
  EXPECT_TRUE(peer.at("flows").at(1).at("local").is_null());
  EXPECT_EQ(peer.at("flows").at(1).at("open"), false);
  EXPECT_EQ(report.at("peers").at(1).at("gone"), true);
  EXPECT_EQ(report.at("peers").at(1).at("error"), "lost 10.0.0.3:5: all flows are gone");
}

TEST(NetStatistics, TotalsAddUpEveryCounter) {
  const json report = json::parse(formatJson(exampleNetwork()));
  const json& one = report.at("peers").at(0).at("totals");
  EXPECT_EQ(one.at("sent_bytes"), 3355443200);
  ASSERT_EQ(one.size(), 10u);
  for (const auto& [name, value] : one.items()) {
    EXPECT_NE(value, 0) << name;
    EXPECT_EQ(value, report.at("peers").at(0).at("flows").at(0).at(name)) << name;
    EXPECT_EQ(report.at("totals").at(name), 2 * value.get<uint64_t>()) << name;
  }
}

TEST(NetStatistics, TextHasARowForEachFlow) {
  const std::string text = formatText(exampleNetwork());
  const std::vector<std::string> lines = linesOf(text);
  ASSERT_EQ(lines.size(), 14u) << text;
  EXPECT_EQ(lines[0], "Cinch network report");
  EXPECT_EQ(lines[2], "device eth0+eth1: 13 strangers");
  EXPECT_EQ(lines[4], "10.0.0.2:41234");
  for (const char* figure : {"10.0.0.1:4000", "open", "3355443200", "668467200", "1.25e+08", "230",
                             "17", "51200", "31", "7", "11", "3", "2", "5"}) {
    EXPECT_NE(lines[6].find(figure), std::string::npos) << figure << " in " << lines[6];
  }
  EXPECT_EQ(lines[5].size(), lines[6].size()) << "the heading is not in line";
  EXPECT_EQ(lines[6].size(), lines[7].size());
  EXPECT_NE(lines[7].find("closed"), std::string::npos);
  EXPECT_EQ(lines[9], "10.0.0.3:5, gone: lost 10.0.0.3:5: all flows are gone");
  EXPECT_EQ(lines[13], "total: 6710886400 bytes sent, 1336934400 received") << text;
}

TEST(NetStatistics, NothingYetIsStillAReport) {
  EXPECT_EQ(formatText({}),
            "Cinch network report\n\ndevice : 0 strangers\n\n"
            "total: 0 bytes sent, 0 received\n");
  const json report = json::parse(formatJson({}));
  EXPECT_TRUE(report.at("peers").is_array());
  EXPECT_EQ(report.at("totals").at("sent_bytes"), 0);
}

TEST(NetStatistics, SaysWhatItLeavesOut) {
  NetworkFigures network;
  network.strangers = 1;
  network.failedAccepts = 4;
  network.forgottenPeers = 1;
  const std::string text = formatText(network);
  EXPECT_NE(text.find("1 stranger, 4 connections that could not be taken, 1 link of long ago"),
            std::string::npos)
      << text;
  EXPECT_EQ(json::parse(formatJson(network)).at("forgotten_peers"), 1);
}

// What a peer makes us say cannot break the table, nor the JSON.
TEST(NetStatistics, OddBytesStayInTheirPlace) {
  NetworkFigures network = exampleNetwork();
  network.peers[0].name = "a\nb\x1b[31m";
  network.peers[1].error = "bytes \xff that are no text";
  network.peers[0].flows[0].bytesPerSecond = std::numeric_limits<double>::infinity();
  EXPECT_EQ(linesOf(formatText(network)).size(), 14u);
  const json report = json::parse(formatJson(network));
  EXPECT_EQ(report.at("peers").at(0).at("name"), "a\nb\x1b[31m");
  EXPECT_TRUE(report.at("peers").at(0).at("flows").at(0).at("bytes_per_second").is_null());
}

}  // namespace
}  // namespace cinch::net
