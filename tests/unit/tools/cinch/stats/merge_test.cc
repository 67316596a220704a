#include "tools/cinch/stats/merge.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/cinch/stats/view.h"

namespace cinch::stats {
namespace {

SlotFigures slotOf(uint64_t calls, uint64_t bytesIn, uint64_t wireBytes) {
  SlotFigures slot;
  slot.name = "AllReduce fp32 Sum x 1000";
  slot.codec = "q4";
  slot.calls = calls;
  slot.bytesIn = bytesIn;
  slot.wireBytes = wireBytes;
  return slot;
}

RankReport reportOf(int rank, double writtenAt, uint64_t calls, const std::string& agreed = "") {
  RankReport report{{"0.1", "host" + std::to_string(rank), 100, "", 1000, writtenAt}, {}};
  CommFigures comm{"communicator 1 rank " + std::to_string(rank) + " of 2",
                   rank,
                   2,
                   "compress",
                   {},
                   {{"small", 3, 30}},
                   {},
                   agreed};
  comm.slots.push_back(slotOf(calls, calls * 4000, calls * 500));
  report.comms.push_back(comm);
  return report;
}

TEST(Merge, AddsUpTheRanksOfACommunicator) {
  for (const char* agreed : {"", "process0.communicator 1 rank 0 of 2"}) {
    const Merged merged = merge({reportOf(0, 1010, 10, agreed), reportOf(1, 1020, 12, agreed)});
    ASSERT_EQ(merged.comms.size(), 1u);
    const MergedComm& comm = merged.comms[0];
    EXPECT_EQ(comm.name, *agreed == 0 ? "communicator 1 of 2" : agreed);
    EXPECT_EQ(comm.nReports, 2u);
    EXPECT_EQ(comm.passed.at("small").calls, 6u);
    ASSERT_EQ(comm.slots.size(), 1u);
    const MergedSlot& slot = comm.slots[0];
    EXPECT_EQ(slot.nRanks, 2u);
    EXPECT_EQ(slot.calls, 12u);
    EXPECT_EQ(slot.bytesIn, 22u * 4000);
    EXPECT_DOUBLE_EQ(slot.ratio, 8);
    EXPECT_DOUBLE_EQ(slot.payloadRate, (10 * 4000 / 10. + 12 * 4000 / 20.) / 2);
    EXPECT_EQ(merged.oldest, 1010);
    EXPECT_EQ(merged.newest, 1020);
  }
}

TEST(Merge, KeepsCommunicatorsApart) {
  RankReport other = reportOf(1, 1010, 5);
  other.comms[0].name = "communicator 2 rank 1 of 2";
  EXPECT_EQ(merge({reportOf(0, 1010, 5), other}).comms.size(), 2u);
  other = reportOf(1, 1010, 5);
  other.comms[0].nRanks = 3;
  EXPECT_EQ(merge({reportOf(0, 1010, 5), other}).comms.size(), 2u);
}

TEST(Merge, RatesAreThoseSinceTheReportBefore) {
  History history;
  const std::vector<RankReport> first = {reportOf(0, 1010, 10)};
  EXPECT_TRUE(history.before(first).empty());
  const std::vector<RankReport> second = {reportOf(0, 1012, 30), reportOf(1, 1012, 12)};
  for (int i = 0; i < 2; ++i) {  // also where it is looked at twice
    const std::vector<RankReport> before = history.before(second);
    ASSERT_EQ(before.size(), 1u);
    EXPECT_DOUBLE_EQ(merge(second, before).comms[0].slots[0].payloadRate,
                     (20 * 4000 / 2. + 12 * 4000 / 12.) / 2);
  }
}

TEST(Merge, NothingIsNothing) {
  const Merged merged = merge({});
  EXPECT_TRUE(merged.comms.empty());
  EXPECT_EQ(viewText(merged, 1), "0 reports, written 1 to 1 s ago\n");
}

TEST(View, ShowsEveryFigureAndWhoIsMissing) {
  const Merged merged = merge({reportOf(0, 1010, 10)});
  const std::string text = viewText(merged, 1040);
  for (const char* part : {"1 report, written 30 to 30 s ago", "communicator 1 of 2: compress",
                           "1 of its 2 ranks have no report here", "AllReduce fp32 Sum x 1000",
                           "40000", "5000", "small"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(View, JsonHasTheSame) {
  const std::string line = viewJson(merge({reportOf(0, 1010, 10), reportOf(1, 1010, 10)}));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto view = nlohmann::json::parse(line);
  EXPECT_EQ(view.at("format"), 1);
  EXPECT_EQ(view.at("reports"), 2);
  const auto& comm = view.at("communicators").at(0);
  EXPECT_EQ(comm.at("passed").at("small").at("bytes"), 60);
  EXPECT_EQ(comm.at("slots").at(0).at("wire_bytes"), 10000);
  EXPECT_DOUBLE_EQ(comm.at("slots").at(0).at("payload_bytes_per_second"), 4000);
}

}  // namespace
}  // namespace cinch::stats
