#include "common/stats.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace cinch {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kReasons[] = {"none", "small", "warmup"};
constexpr const char* kClasses[] = {"gradient", "unknown", "young"};

class TemporaryFolder {
 public:
  TemporaryFolder() { EXPECT_NE(mkdtemp(path_), nullptr); }
  ~TemporaryFolder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return std::string(path_) + "/" + name; }

 private:
  char path_[32] = "/tmp/cinch-stats-XXXXXX";
};

std::string contentOf(const std::string& path) {
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

CommStats& addExample(Report& report) {
  return report.addComm({"comm 1 rank 2 of 4", 2, 4, "compress", kReasons, kClasses});
}

TEST(Nmse, IsErrorOverPower) {
  ErrorSums sums;
  EXPECT_EQ(nmse(sums), 0);
  sums.error = 1;
  sums.power = 8;
  EXPECT_EQ(nmse(sums), 0.125);
  sums.power = std::nan("");
  EXPECT_TRUE(std::isnan(nmse(sums)));
}

TEST(Report, JsonShowsWhatWasCounted) {
  Report report;
  CommStats& comm = addExample(report);
  SlotStats& slot = comm.addSlot("AllReduce fp32 Sum x 1000", "q4", 0.1f);
  slot.compressed += 5;
  slot.bytesIn += 20000;
  slot.wireBytes += 3000;
  slot.residualResets += 1;
  slot.stage[0].error = 1.0;
  slot.stage[0].power = 4.0;
  slot.stage[1].error = 1.0;
  slot.stage[1].power = 8.0;
  comm.passedCalls[1] += 3;
  comm.passedBytes[1] += 99;
  const json figures = json::parse(report.json()).at("communicators").at(0);
  EXPECT_EQ(figures.at("name"), "comm 1 rank 2 of 4");
  EXPECT_EQ(figures.at("rank"), 2);
  EXPECT_EQ(figures.at("ranks"), 4);
  EXPECT_EQ(figures.at("verdict"), "compress");
  const json& shown = figures.at("slots").at(0);
  EXPECT_EQ(shown.at("name"), "AllReduce fp32 Sum x 1000");
  EXPECT_EQ(shown.at("codec"), "q4");
  EXPECT_FLOAT_EQ(shown.at("gain").get<float>(), 0.1f);
  EXPECT_EQ(shown.at("calls"), 5);
  EXPECT_EQ(shown.at("bytes_in"), 20000);
  EXPECT_EQ(shown.at("wire_bytes"), 3000);
  EXPECT_EQ(shown.at("ratio"), 10.0);
  EXPECT_EQ(shown.at("nmse"), 0.25);
  EXPECT_EQ(shown.at("nmse_reduce"), 0.125);
  EXPECT_EQ(shown.at("residual_resets"), 1);
  EXPECT_EQ(figures.at("passed"), json::parse(R"({"small": {"calls": 3, "bytes": 99}})"));
  EXPECT_NE(report.text().find("AllReduce fp32 Sum x 1000"), std::string::npos);
}

TEST(Report, ShowsHowLongCallsHaveWaited) {
  Report report;
  EXPECT_EQ(json::parse(report.json()).at("origin").at("waits"), 0);
  report.setWaits(3, 0.25);
  const json origin = json::parse(report.json()).at("origin");
  EXPECT_EQ(origin.at("waits"), 3);
  EXPECT_EQ(origin.at("waited_seconds"), 0.25);
  EXPECT_NE(report.metrics().find("cinch_waits_total{process="), std::string::npos);
}

TEST(Report, WhatFewSlotsHaveIsRead) {
  Report report;
  CommStats& comm = addExample(report);
  SlotStats& slot = comm.addSlot("slot", "auto", 0.1f);
  slot.strangers += 1;
  slot.overflows += 2;
  slot.plans += 3;
  slot.bitsPerValue = 2.5;
  slot.codecInForce = "q6";
  slot.guard.checks += 4;
  slot.guard.breaches += 5;
  slot.guard.nmse = 0.25;
  slot.guard.powerRatio = 1.5;
  slot.guard.cosine = 0.75;
  slot.guard.budget = 0.5;
  slot.sending.times[0] += 1'500'000;
  slot.sending.times[1] += 2'000'000;
  slot.sending.times[2] += 2'500'000;
  slot.sending.percentSd[1] += 7;
  slot.sending.periods += 90;
  slot.sending.examinations += 6;
  slot.sending.examinedAt += 70;
  slot.sending.changes += 1;
  slot.sending.minBytes += 1 << 20;
  slot.sending.choice = 1;
  slot.residualBytes += 1056;
  comm.workspaceBytes += 4096;
  comm.sending.examinations += 2;
  comm.sending.choice = 2;
  EXPECT_NE(report.text().find("training steps: sent full, 0 ms (sd 0 %) plain, examined 2 times"),
            std::string::npos)
      << report.text();
  EXPECT_NE(report.text().find("device memory: 4096 bytes of workspace, 1056 of residuals"),
            std::string::npos);
  const json shownComm = json::parse(report.json()).at("communicators").at(0);
  EXPECT_EQ(shownComm.at("memory"), json::parse(R"({"workspace": 4096, "residuals": 1056})"));
  const json& shown = shownComm.at("slots").at(0);
  EXPECT_EQ(shown.at("residual_bytes"), 1056);
  EXPECT_EQ(shown.at("residual_strangers"), 1);
  EXPECT_EQ(shown.at("residual_overflows"), 2);
  EXPECT_EQ(shown.at("plans"), 3);
  EXPECT_EQ(shown.at("bits_per_value"), 2.5);
  EXPECT_EQ(shown.at("codec_in_force"), "q6");
  EXPECT_EQ(shown.at("guard"), json::parse(R"({"checks": 4, "breaches": 5, "nmse": 0.25,
                                               "power_ratio": 1.5, "cosine": 0.75,
                                               "budget": 0.5})"));
  EXPECT_EQ(shown.at("sending"),
            json::parse(R"({"choice": "stateless", "min_bytes": 1048576, "plain_ms": 1.5,
                            "stateless_ms": 2.0, "full_ms": 2.5, "sd_percent": [0.0, 7.0, 0.0],
                            "periods": 90, "examinations": 6, "examined_at": 70, "changes": 1})"));
  EXPECT_NE(report.text().find("sent stateless from 1048576 bytes on, 1.5 ms (sd 0 %) plain, "
                               "2 ms (sd 7 %) stateless, 2.5 ms (sd 0 %) full, examined 6 times, "
                               "last at 70 of 90, changed 1 times"),
            std::string::npos)
      << report.text();
}

TEST(Report, CallsHaveTheClassOfTheirLatestOutcome) {
  Report report;
  CommStats& comm = addExample(report);
  CallStats& call = comm.addCall("AllReduce fp32 Sum x 1000");
  const auto shown = [&] {
    return json::parse(report.json()).at("communicators").at(0).at("calls").at(0);
  };
  call.count(2, 4000);
  call.count(2, 4000);
  EXPECT_EQ(shown().at("class"), "young");
  EXPECT_TRUE(shown().at("codec").is_null());
  call.count(0, 4000);
  call.codec = "q8";
  EXPECT_EQ(shown(), json::parse(R"({"name": "AllReduce fp32 Sum x 1000", "class": "gradient",
                                     "calls": 3, "bytes": 12000, "compressed": 1, "codec": "q8",
                                     "latest": "none", "evidence": null, "outcomes": {"none": 1, "warmup": 2}})"));
  EXPECT_NE(comm.callTable().find("AllReduce fp32 Sum x 1000"), std::string::npos);
}

TEST(Report, CallsBeyondTheMostShareOneRow) {
  Report report;
  CommStats& comm = addExample(report);
  for (size_t i = 0; i < CommStats::kMaxCalls + 100; ++i)
    comm.addCall("call " + std::to_string(i)).count(1, 10);
  const auto calls = json::parse(report.json()).at("communicators").at(0).at("calls");
  ASSERT_EQ(calls.size(), CommStats::kMaxCalls + 1);
  EXPECT_EQ(calls.at(0).at("calls"), 1);
  EXPECT_EQ(calls.back().at("name"), "other calls");
  EXPECT_EQ(calls.back().at("calls"), 100);
  EXPECT_EQ(calls.back().at("bytes"), 1000);
}

TEST(Report, ReferencesStayValidAsTheReportGrows) {
  Report report;
  CommStats& first = addExample(report);
  SlotStats& slot = first.addSlot("first", "q8", 0);
  for (int i = 0; i < 1000; ++i) {
    report.addComm({"another", 0, 1, "", {}, {}}).addSlot("x", "q8", 0);
    first.addSlot("more", "q8", 0);
  }
  slot.compressed = 77;
  EXPECT_EQ(first.slots().size(), 1001u);
  EXPECT_EQ(first.slots()[0], &slot);
  const json figures = json::parse(report.json());
  EXPECT_EQ(figures.at("communicators").size(), 1001u);
  EXPECT_EQ(figures.at("communicators").at(0).at("slots").at(0).at("calls"), 77);
}

TEST(Report, CommunicatorWithoutReasonNamesIsShown) {
  Report report;
  report.addComm({"bare", 0, 1, "", {}, {}}).passedCalls[0] = 4;
  EXPECT_TRUE(json::parse(report.json()).at("communicators").at(0).at("passed").empty());
}

TEST(Report, WritesBothFilesAndLeavesNothingElse) {
  const TemporaryFolder folder;
  Report report;
  addExample(report);
  ASSERT_TRUE(report.write(folder / "stats"));
  addExample(report);
  const Result<void> written = report.write(folder / "stats");
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(contentOf(folder / "stats.txt"), report.text());
  json there = json::parse(contentOf(folder / "stats.json")), now = json::parse(report.json());
  EXPECT_LE(there.at("origin").at("written_at"), now.at("origin").at("written_at"));
  there.erase("origin");
  now.erase("origin");
  EXPECT_EQ(there, now);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / ""), {}), 2);
}

TEST(Report, ErrorNamesFileAndCause) {
  const TemporaryFolder folder;
  Report report;
  const Result<void> missing = report.write(folder / "none/stats");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().status, Status::systemError);
  EXPECT_NE(missing.error().message.find(folder / "none/stats.txt"), std::string::npos);
  EXPECT_NE(missing.error().message.find("No such file or directory"), std::string::npos);
  EXPECT_NE(missing.error().message.find("CINCH_STATS"), std::string::npos);
}

TEST(Report, FailedReplacementLeavesNoTemporaryFile) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "stats.txt");  // a file cannot be renamed over a folder
  Report report;
  const Result<void> refused = report.write(folder / "stats");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("cannot replace"), std::string::npos);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / ""), {}), 1);
}

// A reader sees one whole report or the next, never a part of one.
TEST(Report, ReaderNeverSeesHalfAReport) {
  const TemporaryFolder folder;
  Report report;
  CommStats& comm = addExample(report);
  ASSERT_TRUE(report.write(folder / "stats"));
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 0; i < 300; ++i) {
      if (i % 10 == 0) comm.addSlot("slot " + std::to_string(i), "q4", 0.1f);
      EXPECT_TRUE(report.write(folder / "stats"));
    }
    done = true;
  });
  size_t nSlots = 0;
  do {
    const json figures = json::parse(contentOf(folder / "stats.json"), nullptr, false);
    ASSERT_FALSE(figures.is_discarded());
    const size_t now = figures.at("communicators").at(0).at("slots").size();
    EXPECT_GE(now, nSlots);
    nSlots = now;
  } while (!done);
  writer.join();
  EXPECT_EQ(comm.slots().size(), 30u);
}

TEST(Report, ManyThreadsCountWhileOthersWrite) {
  const TemporaryFolder folder;
  constexpr int kThreads = 6, kCalls = 2000;
  Report report;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&report] {
      CommStats& comm = addExample(report);
      SlotStats& slot = comm.addSlot("slot", "q4", 0.1f);
      for (int call = 0; call < kCalls; ++call) {
        slot.compressed.fetch_add(1, std::memory_order_relaxed);
        comm.passedCalls[2].fetch_add(1, std::memory_order_relaxed);
        slot.stage[0].error = slot.stage[0].error + 1;
      }
    });
  }
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (int write = 0; write < 50; ++write) EXPECT_TRUE(report.write(folder / "stats"));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const json totals = json::parse(report.json()).at("totals");
  EXPECT_EQ(totals.at("compressed_calls"), kThreads * kCalls);
  EXPECT_EQ(totals.at("passed_calls"), kThreads * kCalls);
}

}  // namespace
}  // namespace cinch
