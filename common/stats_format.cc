#include "common/stats_format.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include <nlohmann/json.hpp>

namespace cinch {
namespace {

using Json = nlohmann::ordered_json;
using Row = std::vector<std::string>;

constexpr int kFormat = 1;  // of the JSON; raised when a field changes its meaning or goes

std::string number(double value) {
  std::array<char, 32> text;
  snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

// Text of bounded width in a fixed place: no control characters that would break the table.
std::string oneLine(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  return text;
}

void appendRow(std::string& text, const Row& row, const std::vector<size_t>& widths) {
  text += "  ";
  for (size_t column = 0; column < row.size(); ++column) {
    const std::string padding(widths[column] - row[column].size(), ' ');
    text += column == 0 ? row[column] + padding : "  " + padding + row[column];
  }
  text += '\n';
}

// Rows of equal length, the first of them the heading: names to the left, figures to the right.
std::string table(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  std::string text;
  for (const Row& row : rows) appendRow(text, row, widths);
  return text;
}

std::string slotTable(const std::vector<SlotFigures>& slots) {
  std::vector<Row> rows = {{"compressed", "codec", "gain", "calls", "bytes in", "wire bytes",
                            "ratio", "nmse", "nmse reduce", "resets"}};
  for (const SlotFigures& slot : slots) {
    rows.push_back({oneLine(slot.name), oneLine(slot.codec), number(slot.gain),
                    std::to_string(slot.calls), std::to_string(slot.bytesIn),
                    std::to_string(slot.wireBytes), number(slot.ratio), number(slot.nmse),
                    number(slot.nmseReduce), std::to_string(slot.residualResets)});
  }
  return table(rows);
}

std::string passedTable(const std::vector<PassedFigures>& passed) {
  std::vector<Row> rows = {{"passed", "calls", "bytes"}};
  for (const PassedFigures& entry : passed) {
    rows.push_back(
        {oneLine(entry.reason), std::to_string(entry.calls), std::to_string(entry.bytes)});
  }
  return table(rows);
}

std::string totalsLine(const Totals& totals) {
  return "total: compressed " + std::to_string(totals.compressedCalls) + " calls of " +
         std::to_string(totals.bytesIn) + " bytes as " + std::to_string(totals.wireBytes) +
         " wire bytes, passed " + std::to_string(totals.passedCalls) + " calls of " +
         std::to_string(totals.passedBytes) + " bytes\n";
}

Totals totalsOf(const std::vector<CommFigures>& comms) {
  Totals totals;
  for (const CommFigures& comm : comms) totals.add(comm.totals());
  return totals;
}

Json toJson(const Totals& totals) {
  return {{"compressed_calls", totals.compressedCalls},
          {"bytes_in", totals.bytesIn},
          {"wire_bytes", totals.wireBytes},
          {"passed_calls", totals.passedCalls},
          {"passed_bytes", totals.passedBytes}};
}

Json toJson(const SlotFigures& slot) {
  return {{"name", slot.name},
          {"codec", slot.codec},
          {"gain", slot.gain},
          {"calls", slot.calls},
          {"bytes_in", slot.bytesIn},
          {"wire_bytes", slot.wireBytes},
          {"ratio", slot.ratio},
          {"nmse", slot.nmse},
          {"nmse_reduce", slot.nmseReduce},
          {"residual_resets", slot.residualResets}};
}

Json toJson(const CommFigures& comm) {
  Json slots = Json::array();
  for (const SlotFigures& slot : comm.slots) slots.push_back(toJson(slot));
  Json passed = Json::object();
  for (const PassedFigures& entry : comm.passed) {
    passed[entry.reason] = {{"calls", entry.calls}, {"bytes", entry.bytes}};
  }
  return {{"name", comm.name},
          {"rank", comm.rank},
          {"ranks", comm.nRanks},
          {"verdict", comm.verdict},
          {"slots", std::move(slots)},
          {"passed", std::move(passed)},
          {"totals", toJson(comm.totals())}};
}

}  // namespace

void Totals::add(const SlotFigures& slot) {
  compressedCalls += slot.calls;
  bytesIn += slot.bytesIn;
  wireBytes += slot.wireBytes;
}

void Totals::add(const PassedFigures& passed) {
  passedCalls += passed.calls;
  passedBytes += passed.bytes;
}

void Totals::add(const Totals& other) {
  compressedCalls += other.compressedCalls;
  bytesIn += other.bytesIn;
  wireBytes += other.wireBytes;
  passedCalls += other.passedCalls;
  passedBytes += other.passedBytes;
}

Totals CommFigures::totals() const {
  Totals totals;
  for (const SlotFigures& slot : slots) totals.add(slot);
  for (const PassedFigures& entry : passed) totals.add(entry);
  return totals;
}

double wireRatio(uint64_t bytesIn, uint64_t wireBytes, int nRanks) {
  if (wireBytes == 0 || nRanks < 1) return 0;
  const double ringBytes = 2.0 * (nRanks - 1) / nRanks * static_cast<double>(bytesIn);
  return ringBytes / static_cast<double>(wireBytes);
}

std::string formatText(const std::vector<CommFigures>& comms) {
  std::string text = "Cinch report\n";
  for (const CommFigures& comm : comms) {
    text += '\n' + oneLine(comm.name) + ": " + oneLine(comm.verdict) + '\n';
    if (!comm.slots.empty()) text += slotTable(comm.slots);
    if (!comm.passed.empty()) text += passedTable(comm.passed);
  }
  return text + '\n' + totalsLine(totalsOf(comms));
}

std::string formatJson(const std::vector<CommFigures>& comms) {
  Json list = Json::array();
  for (const CommFigures& comm : comms) list.push_back(toJson(comm));
  const Json report = {
      {"format", kFormat}, {"communicators", std::move(list)}, {"totals", toJson(totalsOf(comms))}};
  // Bytes that are not UTF-8 become U+FFFD: a report with an odd name is better than none.
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace cinch
