#include "common/metrics_format.h"

#include <cmath>
#include <cstdio>

namespace cinch {
namespace {

using Labels = std::string;  // `name="value",...`

// A backslash, a quote and the end of a line are what the format escapes.
std::string label(const char* name, const std::string& value) {
  std::string text = std::string(name) + "=\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? "\\n" : std::string(1, c);
  }
  return text + '"';
}

std::string numberText(double value) {
  char text[32];
  snprintf(text, sizeof text, "%.17g", value);
  return text;
}

// One metric of all communicators, or of all their slots: its samples stand together.
class Metric {
 public:
  Metric(const char* name, const char* type, const char* help)
      : name_(name),
        head_("# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " " + type + "\n") {}

  void add(const Labels& labels, double value) {
    if (std::isfinite(value)) samples_ += name_ + "{" + labels + "} " + numberText(value) + "\n";
  }
  std::string text() const { return samples_.empty() ? "" : head_ + samples_; }

 private:
  const std::string name_;
  const std::string head_;
  std::string samples_;
};

Labels labelsOf(const CommFigures& comm, const ReportOrigin& origin) {
  Labels labels = label("process", std::to_string(origin.process));
  if (!origin.batchJob.empty()) labels += "," + label("slurm_job_id", origin.batchJob);
  return labels + "," + label("rank", std::to_string(comm.rank)) + "," +
         label("ranks", std::to_string(comm.nRanks)) + "," + label("communicator", comm.name);
}

// Two slots may have calls of one kind.
Labels labelsOf(const SlotFigures& slot, size_t index) {
  return "," + label("slot", std::to_string(index)) + "," + label("call", slot.name) + "," +
         label("codec", slot.codec);
}

// A figure of slots; where `value` gives none the sample is left out.
struct SlotMetric {
  const char* name;
  const char* type;
  const char* help;
  const char* more;  // labels of this figure, or ""
  double (*value)(const SlotFigures&);
};

// Of what was not measured.
double unlessZero(double value) {
  return value == 0 ? NAN : value;
}

using Slot = SlotFigures;
constexpr const char* kDropHelp = "Residuals that were dropped.";
constexpr const char* kNmseHelp =
    "Squared error of the codec over the power of what it was given, since the start.";
// Those of one name follow each other.
const SlotMetric kSlotMetrics[] = {
    {"cinch_compressed_calls_total", "counter", "Calls that were compressed.", "",
     [](const Slot& it) { return static_cast<double>(it.calls); }},
    {"cinch_payload_bytes_total", "counter", "Bytes that compressed calls were given.", "",
     [](const Slot& it) { return static_cast<double>(it.bytesIn); }},
    {"cinch_wire_bytes_total", "counter", "Bytes that this rank sent to others for them.", "",
     [](const Slot& it) { return static_cast<double>(it.wireBytes); }},
    {"cinch_compression_ratio", "gauge", "How much smaller the traffic is than plain NCCL's.", "",
     [](const Slot& it) { return unlessZero(it.ratio); }},
    {"cinch_bytes_per_value", "gauge", "Bytes that a value takes on the wire.", "",
     [](const Slot& it) { return unlessZero(it.bitsPerValue / 8); }},
    {"cinch_codec_nmse", "gauge", kNmseHelp, ",stage=\"encode\"",
     [](const Slot& it) { return unlessZero(it.nmse); }},
    {"cinch_codec_nmse", "gauge", kNmseHelp, ",stage=\"reduce\"",
     [](const Slot& it) { return unlessZero(it.nmseReduce); }},
    {"cinch_residual_drops_total", "counter", kDropHelp, ",cause=\"reset\"",
     [](const Slot& it) { return static_cast<double>(it.residualResets); }},
    {"cinch_residual_drops_total", "counter", kDropHelp, ",cause=\"stranger\"",
     [](const Slot& it) { return static_cast<double>(it.strangers); }},
    {"cinch_residual_drops_total", "counter", kDropHelp, ",cause=\"overflow\"",
     [](const Slot& it) { return static_cast<double>(it.overflows); }},
    {"cinch_guard_checks_total", "counter", "Results that were compared with exact ones.", "",
     [](const Slot& it) { return static_cast<double>(it.guard.checks); }},
    {"cinch_guard_breaches_total", "counter", "Results further off than their codec may be.", "",
     [](const Slot& it) { return static_cast<double>(it.guard.breaches); }},
};

// One figure for all slots of all communicators.
void addSlots(const SlotMetric& figure, const std::vector<CommFigures>& comms,
              const ReportOrigin& origin, Metric& metric) {
  for (const CommFigures& comm : comms) {
    const Labels labels = labelsOf(comm, origin);
    for (size_t i = 0; i < comm.slots.size(); ++i) {
      metric.add(labels + labelsOf(comm.slots[i], i) + figure.more, figure.value(comm.slots[i]));
    }
  }
}

std::string slotMetrics(const std::vector<CommFigures>& comms, const ReportOrigin& origin) {
  std::string text;
  for (const SlotMetric* it = std::begin(kSlotMetrics); it != std::end(kSlotMetrics);) {
    const std::string name = it->name;
    Metric metric(it->name, it->type, it->help);
    for (; it != std::end(kSlotMetrics) && it->name == name; ++it) {
      addSlots(*it, comms, origin, metric);
    }
    text += metric.text();
  }
  return text;
}

std::string passedMetrics(const std::vector<CommFigures>& comms, const ReportOrigin& origin) {
  Metric calls("cinch_passed_calls_total", "counter", "Calls that went to NCCL unchanged.");
  Metric bytes("cinch_passed_bytes_total", "counter", "Bytes that these calls were given.");
  for (const CommFigures& comm : comms) {
    for (const PassedFigures& passed : comm.passed) {
      const Labels labels = labelsOf(comm, origin) + "," + label("reason", passed.reason);
      calls.add(labels, static_cast<double>(passed.calls));
      bytes.add(labels, static_cast<double>(passed.bytes));
    }
  }
  return calls.text() + bytes.text();
}

std::string originMetrics(const ReportOrigin& origin) {
  Metric info("cinch_info", "gauge", "What writes these figures.");
  Metric started("cinch_start_time_seconds", "gauge", "When the first communicator was made.");
  Metric written("cinch_last_write_timestamp_seconds", "gauge", "When this file was written.");
  Metric waits("cinch_waits_total", "counter", "Calls that waited for the ranks to decide.");
  Metric waited("cinch_waited_seconds_total", "counter", "How long they waited.");
  const Labels process = label("process", std::to_string(origin.process));
  info.add(process + "," + label("version", origin.version) + "," + label("host", origin.host), 1);
  started.add(process, origin.startedAt);
  written.add(process, origin.writtenAt);
  waits.add(process, static_cast<double>(origin.waits));
  waited.add(process, origin.waitedSeconds);
  return info.text() + started.text() + written.text() + waits.text() + waited.text();
}

}  // namespace

std::string formatMetrics(const std::vector<CommFigures>& comms, const ReportOrigin& origin) {
  return originMetrics(origin) + slotMetrics(comms, origin) + passedMetrics(comms, origin);
}

}  // namespace cinch
