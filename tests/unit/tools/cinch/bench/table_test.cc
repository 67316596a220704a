#include "tools/cinch/bench/table.h"

#include <gtest/gtest.h>

#include <sstream>
#include <vector>

namespace cinch::bench {
namespace {

std::vector<std::string> wordsOf(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

Row sampleRow() {
  Row row{{CallKind::allReduce, 4, 4, 16777216}, "float", "sum", {}, {}};
  row.outOfPlace = {21934.4, {3.059, 4.589}, Checked{0, 1e-3, 0, {1, 2e-2}}, Path::plain, "", "",
                    1};
  row.inPlace = {999.94, {3.06, 4.59}, Checked{2, 1e-2, 0, {1, 2e-2}}, Path::plain, "", "", 1};
  return row;
}

TEST(BenchTable, RowHasTheColumnsOfNcclTests) {
  EXPECT_EQ(tableRow(sampleRow()),
            "    67108864      16777216     float     sum      -1    21934    3.06    4.59      0"
            "    999.9    3.06    4.59      2    1.00  1.00e-02  2.00e-02  plain\n");
}

TEST(BenchTable, HeadAlignsWithRows) {
  std::istringstream head(tableHead({}, {}));
  std::string line, columns;
  while (std::getline(head, line)) {
    EXPECT_EQ(line[0], '#');
    if (line.find("busbw") != std::string::npos) columns = line;
  }
  const std::string row = tableRow(sampleRow());
  EXPECT_EQ(columns.find(" path") + 1, row.find("plain"));
  EXPECT_EQ(wordsOf(columns).size() - 1, wordsOf(row).size());
}

TEST(BenchTable, SaysWhichWayCallsWent) {
  Row row = sampleRow();
  row.outOfPlace.path = Path::compressed;
  row.outOfPlace.codec = "q4";
  row.outOfPlace.ratio = 7.5;
  row.inPlace.path = Path::passed;
  row.inPlace.reason = "warmup";
  EXPECT_EQ(wordsOf(tableRow(row)).back(), "compressed:q4,passed:warmup");
}

TEST(BenchTable, WithoutChecksHasNoFigures) {
  Row row = sampleRow();
  row.outOfPlace.checked.reset();
  row.inPlace.checked.reset();
  const auto words = wordsOf(tableRow(row));
  EXPECT_EQ(words[8], "N/A");
  EXPECT_EQ(words[12], "N/A");
  EXPECT_EQ(words[14], "N/A");
}

TEST(BenchTable, FootHasTheTotals) {
  const Totals totals = totalsOf({sampleRow()});
  EXPECT_EQ(totals.wrong, 2u);
  const std::string foot = tableFoot(totals, "all_reduce");
  EXPECT_NE(foot.find("# Out of bounds values : 2 FAILED\n"), std::string::npos);
  EXPECT_NE(foot.find("# Avg bus bandwidth    : 4.5895"), std::string::npos) << foot;
  EXPECT_NE(tableFoot({}, "x").find("# Out of bounds values : 0 OK\n"), std::string::npos);
}

}  // namespace
}  // namespace cinch::bench
