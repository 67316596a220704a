#include "common/stats.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <mutex>

#include "common/host_name.h"
#include "common/metrics_format.h"
#include "common/param.h"
#include "common/replace_file.h"
#include "common/report_file.h"
#include "common/stats_format.h"

namespace cinch {
namespace {

SendingValues valuesOf(const SendingFigures& figures) {
  SendingValues values;
  values.choice = kSendingTexts[figures.choice.load() % std::size(kSendingTexts)];
  for (size_t i = 0; i < std::size(kSendingTexts); ++i) {
    values.milliseconds[i] = static_cast<double>(figures.times[i]) / 1e6;
    values.percentSd[i] = static_cast<double>(figures.percentSd[i]);
  }
  values.minBytes = figures.minBytes;
  values.periods = figures.periods;
  values.examinations = figures.examinations;
  values.examinedAt = figures.examinedAt;
  values.changes = figures.changes;
  return values;
}

SlotFigures figuresOf(const SlotStats& slot, int nRanks) {
  SlotFigures figures;
  figures.name = slot.name;
  figures.codec = slot.codec;
  figures.gain = slot.gain;
  figures.calls = slot.compressed;
  figures.bytesIn = slot.bytesIn;
  figures.wireBytes = slot.wireBytes;
  figures.ratio = wireRatio(figures.bytesIn, figures.wireBytes, nRanks);
  figures.nmse = nmse(slot.stage[0]);
  figures.nmseReduce = nmse(slot.stage[1]);
  figures.residualBytes = slot.residualBytes;
  figures.residualResets = slot.residualResets;
  figures.strangers = slot.strangers;
  figures.overflows = slot.overflows;
  figures.plans = slot.plans;
  figures.bitsPerValue = slot.bitsPerValue;
  if (const char* codec = slot.codecInForce) figures.codecInForce = codec;
  const GuardFigures& guard = slot.guard;
  figures.guard = {.checks = guard.checks,
                   .breaches = guard.breaches,
                   .nmse = guard.nmse,
                   .powerRatio = guard.powerRatio,
                   .cosine = guard.cosine,
                   .budget = guard.budget};
  figures.sending = valuesOf(slot.sending);
  return figures;
}

// Since 1970.
double secondsNow() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string nameAt(std::span<const char* const> names, size_t index) {
  return index < names.size() ? names[index] : "";
}

CallFigures figuresOf(const CallStats& call, const CommLabel& label) {
  const size_t latest = call.latest;
  CallFigures figures;
  figures.name = call.name;
  figures.callClass = nameAt(label.classes, latest);
  figures.bytes = call.bytes;
  if (const char* codec = call.codec) figures.codec = codec;
  if (const char* evidence = call.evidence) figures.evidence = evidence;
  figures.latest = nameAt(label.reasons, latest);
  // What was known of it holds while its position is being found again, or it is examined anew.
  const bool isKnownAgainSoon = figures.latest == "unplaced" || figures.latest == "preparing";
  if (call.outcomes[0] > 0 && isKnownAgainSoon) figures.callClass = nameAt(label.classes, 0);
  for (size_t reason = 0; reason < std::min(label.reasons.size(), kMaxReasons); ++reason) {
    const uint64_t calls = call.outcomes[reason];
    figures.calls += calls;
    if (calls > 0) figures.outcomes.push_back({label.reasons[reason], calls});
  }
  figures.compressed = call.outcomes[0];
  return figures;
}

std::vector<CallFigures> callFigures(const CommStats& comm) {
  std::vector<CallFigures> figures;
  for (const CallStats* call : comm.calls()) figures.push_back(figuresOf(*call, comm.label));
  return figures;
}

std::vector<PassedFigures> passedFigures(const CommStats& comm) {
  std::vector<PassedFigures> figures;
  const auto names = comm.label.reasons;
  for (size_t reason = 0; reason < std::min(names.size(), kMaxReasons); ++reason) {
    const uint64_t calls = comm.passedCalls[reason];
    if (calls > 0) figures.push_back({names[reason], calls, comm.passedBytes[reason]});
  }
  return figures;
}

CommFigures figuresOf(const CommStats& comm) {
  const CommLabel& label = comm.label;
  CommFigures figures{label.name, label.rank, label.nRanks, label.verdict, {}, {}, {}};
  for (const SlotStats* slot : comm.slots())
    figures.slots.push_back(figuresOf(*slot, label.nRanks));
  figures.passed = passedFigures(comm);
  figures.calls = callFigures(comm);
  figures.agreedName = label.agreedName;
  figures.nUsedSms = label.nUsedSms;
  figures.nSms = label.nSms;
  figures.sending = valuesOf(comm.sending);
  figures.workspaceBytes = comm.workspaceBytes;
  return figures;
}

}  // namespace

// A list keeps the address of what is in it.
struct CommStats::Lists {
  mutable std::mutex mutex;
  std::list<SlotStats> slots;
  std::list<CallStats> calls;

  template <class Stats>
  std::vector<const Stats*> all(const std::list<Stats>& list) const {
    std::lock_guard lock(mutex);
    std::vector<const Stats*> result;
    for (const Stats& stats : list) result.push_back(&stats);
    return result;
  }
};

CommStats::CommStats(CommLabel label)
    : label(std::move(label)), lists_(std::make_unique<Lists>()) {}

CommStats::~CommStats() = default;

SlotStats& CommStats::addSlot(const std::string& name, const std::string& codec, float gain) {
  std::lock_guard lock(lists_->mutex);
  SlotStats& slot = lists_->slots.emplace_back();
  slot.name = name;
  slot.codec = codec;
  slot.gain = gain;
  return slot;
}

CallStats& CommStats::addCall(const std::string& name) {
  std::lock_guard lock(lists_->mutex);
  std::list<CallStats>& calls = lists_->calls;
  if (calls.size() > kMaxCalls) return calls.back();
  return calls.emplace_back(calls.size() == kMaxCalls ? "other calls" : name);
}

std::vector<const SlotStats*> CommStats::slots() const {
  return lists_->all(lists_->slots);
}

std::vector<const CallStats*> CommStats::calls() const {
  return lists_->all(lists_->calls);
}

CommFigures CommStats::figures() const {
  return figuresOf(*this);
}

std::string CommStats::callTable() const {
  return formatCalls(callFigures(*this));
}

struct Report::State {
  const double startedAt = secondsNow();
  mutable std::mutex mutex;
  std::list<CommStats> comms;
  std::mutex writing;  // two writers of one process share the temporary name
  std::atomic<uint64_t> waits{0};
  std::atomic<double> waitedSeconds{0};

  std::vector<CommFigures> figures() const {
    std::lock_guard lock(mutex);
    std::vector<CommFigures> result;
    for (const CommStats& comm : comms) result.push_back(figuresOf(comm));
    return result;
  }

  ReportOrigin origin() const {
    const char* batchJob = environmentVariable("SLURM_JOB_ID");
    return {CINCH_VERSION, hostName(),   getpid(), batchJob == nullptr ? "" : batchJob,
            startedAt,     secondsNow(), waits,    waitedSeconds};
  }
};

Report::Report() : state_(std::make_unique<State>()) {}

Report::~Report() = default;

CommStats& Report::addComm(CommLabel label) {
  std::lock_guard lock(state_->mutex);
  return state_->comms.emplace_back(std::move(label));
}

void Report::setWaits(uint64_t count, double seconds) {
  state_->waits = count;
  state_->waitedSeconds = seconds;
}

std::string Report::text() const {
  return formatText(state_->figures(), state_->origin());
}

std::string Report::json() const {
  return formatJson(state_->figures(), state_->origin());
}

std::string Report::metrics() const {
  return formatMetrics(state_->figures(), state_->origin());
}

ReportOrigin Report::origin() const {
  return state_->origin();
}

Result<void> Report::write(const std::string& path) const {
  std::lock_guard lock(state_->writing);
  const std::vector<CommFigures> figures = state_->figures();
  const ReportOrigin origin = state_->origin();
  return writeReportFiles(path, formatText(figures, origin), formatJson(figures, origin));
}

Result<void> Report::writeMetrics(const std::string& path) const {
  std::lock_guard lock(state_->writing);
  const Result<void> written = replaceFile(path + ".prom", metrics());
  if (written) return {};
  return errorf(written.error().status, "%s (CINCH_METRICS says where the metrics go)",
                written.error().message.c_str());
}

double nmse(const ErrorSums& sums) {
  const double power = sums.power;
  return power == 0 ? 0 : sums.error / power;
}

}  // namespace cinch
