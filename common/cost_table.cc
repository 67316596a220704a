#include "common/cost_table.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>

#include "common/host_name.h"
#include "common/text.h"

namespace cinch {
namespace {

constexpr std::string_view kMagic = "cinch-costs";
constexpr std::string_view kVersion = "1";

template <class Number>
bool readNumber(std::string_view field, Number& number) {
  const char* const end = field.data() + field.size();
  const auto [stop, error] = std::from_chars(field.data(), end, number);
  return error == std::errc() && stop == end;
}

template <class Value>
bool readName(const std::optional<Value>& found, Value& value) {
  if (found) value = *found;
  return found.has_value();
}

class Parser {
 public:
  Result<void> addLine(std::string_view line) {
    ++lineNumber_;
    std::string_view content = takeUntil(line, "#");
    if (content.empty()) return {};
    const bool isTaken = table_.nRanks == 0 ? takeHeading(content) : takeRow(content);
    if (isTaken) return {};
    return errorf(Status::invalidUsage, "line %zu is no line of a cost table of version 1",
                  lineNumber_);
  }

  Result<CostTable> finish() {
    if (table_.nRanks == 0) return errorf(Status::invalidUsage, "no heading of a cost table");
    return std::move(table_);
  }

 private:
  bool takeHeading(std::string_view fields) {
    int nRanks = 0, nNodes = 0;
    const bool isOne = takeUntil(fields, ",") == kMagic && takeUntil(fields, ",") == kVersion &&
                       readNumber(takeUntil(fields, ","), nRanks) && readNumber(fields, nNodes) &&
                       nRanks > 0 && nNodes > 0 && nNodes <= nRanks;
    if (isOne) table_ = {nRanks, nNodes, {}};
    return isOne;
  }

  bool takeRow(std::string_view fields) {
    CostRow row{};
    const bool isOne = readName(collectiveNamed(takeUntil(fields, ",")), row.collective) &&
                       readNumber(takeUntil(fields, ","), row.nBytes) &&
                       readNumber(takeUntil(fields, ","), row.nPipeOps) &&
                       readName(algorithmNamed(takeUntil(fields, ",")), row.algorithm) &&
                       readName(protocolNamed(takeUntil(fields, ",")), row.protocol) &&
                       readNumber(fields, row.microseconds) && row.nPipeOps >= 0 &&
                       std::isfinite(row.microseconds) && row.microseconds >= 0 &&
                       table_.rows.size() < kMaxCostRows;
    if (isOne) table_.rows.push_back(row);
    return isOne;
  }

  size_t lineNumber_ = 0;
  CostTable table_;
};

// The shortest text that is read back as the same number, whatever the locale.
std::string numberText(float value) {
  char text[32];
  const auto written = std::to_chars(text, text + sizeof text, value);
  return {text, written.ptr};
}

}  // namespace

std::string formatCostTable(const CostTable& table) {
  std::string text = "# NCCL's own estimates, as its tuner plugin was shown them\n";
  text += std::string(kMagic) + "," + std::string(kVersion) + "," + std::to_string(table.nRanks) +
          "," + std::to_string(table.nNodes) + "\n";
  for (const CostRow& row : table.rows)
    text += nameOf(row.collective) + "," + std::to_string(row.nBytes) + "," +
            std::to_string(row.nPipeOps) + "," + nameOf(row.algorithm) + "," +
            nameOf(row.protocol) + "," + numberText(row.microseconds) + "\n";
  return text;
}

Result<CostTable> parseCostTable(std::string_view text) {
  Parser parser;
  while (!text.empty()) CINCH_TRY(parser.addLine(takeUntil(text, "\n")));
  return parser.finish();
}

std::optional<ExpectedCost> fastestIn(const CostTable& table, TunedCollective collective,
                                      uint64_t nBytes) {
  std::map<uint64_t, ExpectedCost> fastest;
  for (const CostRow& row : table.rows) {
    if (row.collective != collective) continue;
    const ExpectedCost cost{row.algorithm, row.protocol, row.microseconds};
    const auto [known, isNew] = fastest.try_emplace(row.nBytes, cost);
    if (!isNew && cost.microseconds < known->second.microseconds) known->second = cost;
  }
  const auto above = fastest.lower_bound(nBytes);
  if (above == fastest.end()) return std::nullopt;
  if (above->first == nBytes) return above->second;
  if (above == fastest.begin()) return std::nullopt;
  const auto below = std::prev(above);
  const double share =
      static_cast<double>(nBytes - below->first) / static_cast<double>(above->first - below->first);
  ExpectedCost made = above->second;
  made.microseconds = std::lerp(below->second.microseconds, made.microseconds, share);
  return made;
}

std::string costTablePath(const std::string& folder, int nRanks, int nNodes) {
  return folder + "/nccl-costs." + hostName() + "." + std::to_string(nRanks) + "ranks." +
         std::to_string(nNodes) + "nodes.csv";
}

}  // namespace cinch
