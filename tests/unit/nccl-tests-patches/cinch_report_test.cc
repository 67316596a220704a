#include "nccl-tests-patches/src/cinch_report.h"

#include <gtest/gtest.h>

#include "common/stats.h"

namespace cinch {
namespace {

constexpr const char* kReasons[] = {"compressed", "too_small", "same_host"};
constexpr const char* kName = "AllReduce fp32 Sum x 1024";

CommStats& addComm(Report& report) {
  return report.addComm({.name = "communicator 1 rank 0 of 4",
                         .rank = 0,
                         .nRanks = 4,
                         .verdict = "may compress",
                         .reasons = kReasons,
                         .classes = kReasons});
}

SlotStats& addSlot(CommStats& comm, const char* name, uint64_t calls, uint64_t wireBytes) {
  SlotStats& slot = comm.addSlot(name, "q4", 0.1f);
  slot.compressed = calls;
  slot.wireBytes = wireBytes;
  return slot;
}

TEST(NcclTestsReport, ReadsWhatTheReportSays) {
  Report report;
  CommStats& comm = addComm(report);
  addSlot(comm, "AllReduce fp32 Sum x 10240", 7, 70);
  addSlot(comm, kName, 3, 600).guard.checks = 2;
  CallStats& call = comm.addCall(kName);
  for (int i = 0; i < 3; ++i) call.count(0, 4096);
  call.count(2, 4096);
  const CallFigures figures = figuresOf(report.json(), kName);
  EXPECT_EQ(figures.calls, 4u);
  EXPECT_EQ(figures.compressed, 3u);
  EXPECT_EQ(figures.wireBytes, 600u);
  EXPECT_EQ(figures.latest, "same_host");
  EXPECT_EQ(figures.codec, "q4");
}

TEST(NcclTestsReport, TheFirstCommunicatorThatMadeTheCallCounts) {
  Report report;
  addComm(report).addCall("AllReduce fp32 Sum x 2");
  CommStats& second = addComm(report);
  addSlot(second, kName, 1, 100);
  second.addCall(kName).count(0, 4096);
  CommStats& third = addComm(report);
  addSlot(third, kName, 9, 900);
  third.addCall(kName).count(1, 4096);
  const CallFigures figures = figuresOf(report.json(), kName);
  EXPECT_EQ(figures.compressed, 1u);
  EXPECT_EQ(figures.wireBytes, 100u);
}

TEST(NcclTestsReport, TheCodecInForceIsToldButForAuto) {
  Report report;
  CommStats& comm = addComm(report);
  addSlot(comm, kName, 1, 100).codecInForce = "q8";
  EXPECT_EQ(figuresOf(report.json(), kName).codec, "q8");
  Report adaptive;
  addComm(adaptive).addSlot(kName, "auto", 0.1f).codecInForce = "h4";
  EXPECT_EQ(figuresOf(adaptive.json(), kName).codec, "auto");
}

TEST(NcclTestsReport, NothingIsReadFromOtherTexts) {
  for (const char* text : {"", "{", "{\"name\": \"AllReduce fp32 Sum x 1024\"",
                           "{\"name\": \"AllReduce fp32 Sum x 1024\", \"calls\":",
                           "\"name\": \"AllReduce fp32 Sum x 1024\" \"class\": \""}) {
    EXPECT_EQ(figuresOf(text, kName).calls, 0u) << text;
    EXPECT_EQ(figuresOf(text, kName).wireBytes, 0u) << text;
  }
}

TEST(NcclTestsReport, ThePathIsOfTheCallsInBetween) {
  CallFigures before, after;
  EXPECT_EQ(pathOf(before, after), "unknown");
  before.calls = before.compressed = 5;
  after = before;
  after.codec = "q4";
  after.latest = "too_small";
  after.calls = 8;
  EXPECT_EQ(pathOf(before, after), "passed:too_small");
  after.compressed = 7;
  EXPECT_EQ(pathOf(before, after), "mixed:q4");
  after.compressed = 8;
  EXPECT_EQ(pathOf(before, after), "compressed:q4");
}

TEST(NcclTestsReport, EveryProcessHasAFileOfItsOwn) {
  const std::string pid = std::to_string(getpid());
  setenv("CINCH_STATS", "/tmp/report", 1);
  EXPECT_EQ(claimReport(), "/tmp/report." + pid);
  EXPECT_EQ(std::string(getenv("CINCH_STATS")), "/tmp/report." + pid);
  setenv("CINCH_STATS", "/tmp/report-%p-x", 1);
  EXPECT_EQ(claimReport(), "/tmp/report-" + pid + "-x");
  unsetenv("CINCH_STATS");
  EXPECT_NE(claimReport().find("cinch-nccl-tests." + pid), std::string::npos);
}

}  // namespace
}  // namespace cinch
