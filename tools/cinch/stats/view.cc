#include "tools/cinch/stats/view.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/text_table.h"

namespace cinch::stats {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kViewFormat = 1;
constexpr double kMega = 1e6;

// "-" for what was not measured.
std::string measured(double value) {
  return value > 0 ? shortNumber(value) : "-";
}

std::string agesText(const Merged& merged, double now) {
  const auto age = [now](double at) { return std::max(0.0, now - at); };
  return fmt::format("{} report{}, written {:.0f} to {:.0f} s ago\n", merged.nReports,
                     merged.nReports == 1 ? "" : "s", age(merged.newest), age(merged.oldest));
}

std::string slotTable(const MergedComm& comm) {
  std::vector<TableRow> rows = {{"compressed", "slot", "codec", "ranks", "calls", "bytes in",
                                 "wire bytes", "ratio", "MB/s", "wire MB/s", "bits", "nmse",
                                 "breaches", "drops"}};
  for (size_t i = 0; i < comm.slots.size(); ++i) {
    const MergedSlot& slot = comm.slots[i];
    rows.push_back(
        {oneLine(slot.call), std::to_string(i), oneLine(slot.codec), std::to_string(slot.nRanks),
         std::to_string(slot.calls), std::to_string(slot.bytesIn), std::to_string(slot.wireBytes),
         measured(slot.ratio), measured(slot.payloadRate / kMega), measured(slot.wireRate / kMega),
         measured(slot.bitsPerValue), measured(slot.nmse),
         fmt::format("{}/{}", slot.breaches, slot.checks), std::to_string(slot.drops)});
  }
  return formatTable(rows);
}

std::string passedTable(const MergedComm& comm) {
  std::vector<TableRow> rows = {{"passed", "calls", "bytes"}};
  for (const auto& [reason, passed] : comm.passed) {
    rows.push_back({oneLine(reason), std::to_string(passed.calls), std::to_string(passed.bytes)});
  }
  return formatTable(rows);
}

std::string commText(const MergedComm& comm) {
  std::string text = fmt::format("\n{}: {}\n", oneLine(comm.name), oneLine(comm.verdict));
  if (comm.nRanks > 0 && comm.nReports < static_cast<size_t>(comm.nRanks)) {
    text += fmt::format("  {} of its {} ranks have no report here\n",
                        static_cast<size_t>(comm.nRanks) - comm.nReports, comm.nRanks);
  }
  if (!comm.slots.empty()) text += slotTable(comm);
  if (!comm.passed.empty()) text += passedTable(comm);
  return text;
}

OrderedJson jsonOf(const MergedSlot& slot) {
  return {{"call", slot.call},
          {"codec", slot.codec},
          {"ranks", slot.nRanks},
          {"calls", slot.calls},
          {"bytes_in", slot.bytesIn},
          {"wire_bytes", slot.wireBytes},
          {"ratio", slot.ratio},
          {"payload_bytes_per_second", slot.payloadRate},
          {"wire_bytes_per_second", slot.wireRate},
          {"bits_per_value", slot.bitsPerValue},
          {"nmse", slot.nmse},
          {"checks", slot.checks},
          {"breaches", slot.breaches},
          {"residual_drops", slot.drops}};
}

OrderedJson jsonOf(const MergedComm& comm) {
  OrderedJson slots = OrderedJson::array(), passed = OrderedJson::object();
  for (const MergedSlot& slot : comm.slots) slots.push_back(jsonOf(slot));
  for (const auto& [reason, sum] : comm.passed) {
    passed[reason] = {{"calls", sum.calls}, {"bytes", sum.bytes}};
  }
  return {{"name", comm.name},        {"verdict", comm.verdict},   {"ranks", comm.nRanks},
          {"reports", comm.nReports}, {"slots", std::move(slots)}, {"passed", std::move(passed)}};
}

}  // namespace

std::string viewText(const Merged& merged, double now) {
  std::string text = agesText(merged, now);
  for (const MergedComm& comm : merged.comms) text += commText(comm);
  return text;
}

std::string viewJson(const Merged& merged) {
  OrderedJson comms = OrderedJson::array();
  for (const MergedComm& comm : merged.comms) comms.push_back(jsonOf(comm));
  const OrderedJson view = {{"format", kViewFormat},
                            {"reports", merged.nReports},
                            {"oldest_written_at", merged.oldest},
                            {"newest_written_at", merged.newest},
                            {"communicators", std::move(comms)}};
  return view.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

}  // namespace cinch::stats
