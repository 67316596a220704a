#include "common/stats_format.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/text_table.h"

namespace cinch {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 2;  // of the JSON; raised when a field changes its meaning or goes

std::string slotTable(const std::vector<SlotFigures>& slots) {
  std::vector<TableRow> rows = {{"compressed", "codec", "gain", "calls", "bytes in", "wire bytes",
                                 "ratio", "nmse", "nmse reduce", "resets"}};
  for (const SlotFigures& slot : slots) {
    rows.push_back({oneLine(slot.name), oneLine(slot.codec), shortNumber(slot.gain),
                    std::to_string(slot.calls), std::to_string(slot.bytesIn),
                    std::to_string(slot.wireBytes), shortNumber(slot.ratio), shortNumber(slot.nmse),
                    shortNumber(slot.nmseReduce), std::to_string(slot.residualResets)});
  }
  return formatTable(rows);
}

// Appends ", 3 THING" where there are any.
void appendCount(std::string& text, uint64_t n, const char* thing) {
  if (n > 0) text += ", " + std::to_string(n) + " " + thing;
}

std::string guardText(const GuardValues& guard) {
  return ", guard: " + std::to_string(guard.checks) + " checks, " + std::to_string(guard.breaches) +
         " beyond the budget, last nmse " + shortNumber(guard.nmse) + " of " +
         shortNumber(guard.budget) + " allowed, power " + shortNumber(guard.powerRatio) +
         " of the exact result's, cosine " + shortNumber(guard.cosine);
}

std::string timeText(const SendingValues& sending, size_t i) {
  return shortNumber(sending.milliseconds[i]) + " ms (sd " + shortNumber(sending.percentSd[i]) +
         " %)";
}

std::string sendingText(const SendingValues& sending) {
  std::string text = "sent " + sending.choice;
  if (sending.minBytes > 0) text += " from " + std::to_string(sending.minBytes) + " bytes on";
  text += ", " + timeText(sending, 0) + " plain";
  if (sending.milliseconds[1] > 0) text += ", " + timeText(sending, 1) + " stateless";
  if (sending.milliseconds[2] > 0) text += ", " + timeText(sending, 2) + " full";
  return text + ", examined " + std::to_string(sending.examinations) + " times, last at " +
         std::to_string(sending.examinedAt) + " of " + std::to_string(sending.periods) +
         ", changed " + std::to_string(sending.changes) + " times";
}

// What few slots have; empty where there is none of it.
std::string slotRemarks(const SlotFigures& slot) {
  std::string text;
  const bool isRaised = !slot.codecInForce.empty() && slot.codecInForce != slot.codec;
  if (isRaised) text += ", " + oneLine(slot.codecInForce) + " in force";
  if (slot.bitsPerValue > 0) text += ", " + shortNumber(slot.bitsPerValue) + " bits per value";
  appendCount(text, slot.plans, "changes of precision");
  appendCount(text, slot.strangers, "residuals of other buffers dropped");
  appendCount(text, slot.overflows, "residuals out of proportion dropped");
  if (slot.guard.checks > 0) text += guardText(slot.guard);
  if (slot.sending.examinations > 0) text += ", " + sendingText(slot.sending);
  return text.empty() ? "" : "  " + oneLine(slot.name) + ": " + text.substr(2) + '\n';
}

std::string passedTable(const std::vector<PassedFigures>& passed) {
  std::vector<TableRow> rows = {{"passed", "calls", "bytes"}};
  for (const PassedFigures& entry : passed) {
    rows.push_back(
        {oneLine(entry.reason), std::to_string(entry.calls), std::to_string(entry.bytes)});
  }
  return formatTable(rows);
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

Json orNull(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json toJson(const ReportOrigin& origin) {
  return {{"version", origin.version},      {"host", origin.host},
          {"process", origin.process},      {"batch_job", orNull(origin.batchJob)},
          {"started_at", origin.startedAt}, {"written_at", origin.writtenAt},
          {"waits", origin.waits},          {"waited_seconds", origin.waitedSeconds}};
}

std::string originLine(const ReportOrigin& origin) {
  if (origin.host.empty()) return "";
  const auto seconds = static_cast<long>(origin.writtenAt - origin.startedAt);
  return "Cinch " + origin.version + ", " + oneLine(origin.host) + ", process " +
         std::to_string(origin.process) + ", " + std::to_string(seconds) +
         " s after its first communicator\n";
}

Json toJson(const GuardValues& guard) {
  return {{"checks", guard.checks}, {"breaches", guard.breaches},
          {"nmse", guard.nmse},     {"power_ratio", guard.powerRatio},
          {"cosine", guard.cosine}, {"budget", guard.budget}};
}

Json toJson(const SendingValues& sending) {
  return {{"choice", sending.choice},
          {"min_bytes", sending.minBytes},
          {"plain_ms", sending.milliseconds[0]},
          {"stateless_ms", sending.milliseconds[1]},
          {"full_ms", sending.milliseconds[2]},
          {"sd_percent", sending.percentSd},
          {"periods", sending.periods},
          {"examinations", sending.examinations},
          {"examined_at", sending.examinedAt},
          {"changes", sending.changes}};
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
          {"residual_bytes", slot.residualBytes},
          {"residual_resets", slot.residualResets},
          {"residual_strangers", slot.strangers},
          {"residual_overflows", slot.overflows},
          {"plans", slot.plans},
          {"bits_per_value", slot.bitsPerValue},
          {"codec_in_force", orNull(slot.codecInForce)},
          {"guard", toJson(slot.guard)},
          {"sending", toJson(slot.sending)}};
}

Json toJson(const CallFigures& call) {
  Json outcomes = Json::object();
  for (const OutcomeFigures& outcome : call.outcomes) outcomes[outcome.reason] = outcome.calls;
  return {{"name", call.name},
          {"class", call.callClass},
          {"calls", call.calls},
          {"bytes", call.bytes},
          {"compressed", call.compressed},
          {"codec", orNull(call.codec)},
          {"latest", call.latest},
          {"evidence", orNull(call.evidence)},
          {"outcomes", std::move(outcomes)}};
}

std::string smText(const CommFigures& comm) {
  return "the codec's kernels have as many CTAs as fit on " + std::to_string(comm.nUsedSms) +
         " of " + std::to_string(comm.nSms) + " SMs";
}

std::string memoryText(const CommFigures& comm) {
  return "device memory: " + std::to_string(comm.workspaceBytes) + " bytes of workspace, " +
         std::to_string(comm.residualBytes()) + " of residuals";
}

Json smsToJson(const CommFigures& comm) {
  if (comm.nSms == 0) return nullptr;
  return {{"used", comm.nUsedSms}, {"there", comm.nSms}};
}

Json toJson(const CommFigures& comm) {
  Json slots = Json::array();
  for (const SlotFigures& slot : comm.slots) slots.push_back(toJson(slot));
  Json passed = Json::object();
  for (const PassedFigures& entry : comm.passed) {
    passed[entry.reason] = {{"calls", entry.calls}, {"bytes", entry.bytes}};
  }
  Json calls = Json::array();
  for (const CallFigures& call : comm.calls) calls.push_back(toJson(call));
  return {{"name", comm.name},
          {"agreed_name", orNull(comm.agreedName)},
          {"rank", comm.rank},
          {"ranks", comm.nRanks},
          {"verdict", comm.verdict},
          {"sms", smsToJson(comm)},
          {"sending", toJson(comm.sending)},
          {"memory", {{"workspace", comm.workspaceBytes}, {"residuals", comm.residualBytes()}}},
          {"slots", std::move(slots)},
          {"passed", std::move(passed)},
          {"gathered_share", gatheredShare(comm)},
          {"calls", std::move(calls)},
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

uint64_t CommFigures::residualBytes() const {
  uint64_t bytes = 0;
  for (const SlotFigures& slot : slots) bytes += slot.residualBytes;
  return bytes;
}

Totals CommFigures::totals() const {
  Totals totals;
  for (const SlotFigures& slot : slots) totals.add(slot);
  for (const PassedFigures& entry : passed) totals.add(entry);
  return totals;
}

double gatheredShare(const CommFigures& comm) {
  double gathered = 0, others = 0;
  for (const PassedFigures& entry : comm.passed) {
    const bool isGathered = entry.reason == "gathered";
    (isGathered ? gathered : others) += static_cast<double>(entry.bytes);
  }
  gathered *= comm.nRanks - 1;  // a rank's shard goes to all others
  const double sent = gathered + 2 * others + static_cast<double>(comm.totals().wireBytes);
  return gathered > 0 ? gathered / sent : 0;
}

std::string gatheredRemark(const CommFigures& comm) {
  const double share = gatheredShare(comm);
  if (share < 0.5 || comm.totals().compressedCalls == 0) return "";
  return std::to_string(std::lround(100 * share)) +
         " % of what is sent are gathers, which pass. Where they are weights, as of FSDP and ZeRO, "
         "CINCH_ALLGATHER=y sends them at 8 bits, a quarter of fp32 and half of bf16. The model "
         "then computes with rounded weights, while the shards that are trained stay exact: see "
         "docs/sharded.md";
}

double wireRatio(uint64_t bytesIn, uint64_t wireBytes, int nRanks) {
  if (wireBytes == 0 || nRanks < 1) return 0;
  const double ringBytes = 2.0 * (nRanks - 1) / nRanks * static_cast<double>(bytesIn);
  return ringBytes / static_cast<double>(wireBytes);
}

std::string formatCalls(const std::vector<CallFigures>& calls) {
  std::vector<TableRow> rows = {
      {"call", "taken for", "calls", "bytes", "compressed", "codec", "latest"}};
  for (const CallFigures& call : calls) {
    rows.push_back({oneLine(call.name), oneLine(call.callClass), std::to_string(call.calls),
                    std::to_string(call.bytes), std::to_string(call.compressed),
                    call.codec.empty() ? "-" : oneLine(call.codec), oneLine(call.latest)});
  }
  return formatTable(rows);
}

std::string formatText(const std::vector<CommFigures>& comms, const ReportOrigin& origin) {
  std::string text = "Cinch report\n" + originLine(origin);
  for (const CommFigures& comm : comms) {
    text += '\n' + oneLine(comm.name) + ": " + oneLine(comm.verdict) + '\n';
    if (comm.nSms > 0) text += "  " + smText(comm) + '\n';
    if (comm.workspaceBytes > 0) text += "  " + memoryText(comm) + '\n';
    if (comm.sending.examinations > 0)
      text += "  training steps: " + sendingText(comm.sending) + '\n';
    if (!comm.slots.empty()) text += slotTable(comm.slots);
    for (const SlotFigures& slot : comm.slots) text += slotRemarks(slot);
    if (!comm.passed.empty()) text += passedTable(comm.passed);
    if (const std::string remark = gatheredRemark(comm); !remark.empty())
      text += "  " + remark + '\n';
    if (!comm.calls.empty()) text += formatCalls(comm.calls);
  }
  return text + '\n' + totalsLine(totalsOf(comms));
}

std::string formatJson(const std::vector<CommFigures>& comms, const ReportOrigin& origin) {
  Json list = Json::array();
  for (const CommFigures& comm : comms) list.push_back(toJson(comm));
  const Json report = {{"format", kFormat},
                       {"origin", toJson(origin)},
                       {"communicators", std::move(list)},
                       {"totals", toJson(totalsOf(comms))}};
  // Bytes that are not UTF-8 become U+FFFD: a report with an odd name is better than none.
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace cinch
