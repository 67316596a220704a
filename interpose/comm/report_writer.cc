#include "interpose/comm/report_writer.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

#include "common/log.h"
#include "common/param.h"
#include "common/replace_file.h"
#include "common/signals_blocked.h"
#include "interpose/agree/decisions.h"
#include "interpose/comm/rule_source.h"
#include "interpose/comm/trace_log.h"
#include "interpose/policy/policy.h"

namespace cinch {
namespace {

constexpr std::chrono::seconds kFirstInterval(1);

std::atomic<pid_t> armedPid{0};

// Of a job that is killed early something is to be left, too.
void rewriteForEver() {
  const std::chrono::seconds interval(processParams().params.statsInterval);
  for (auto wait = std::min(kFirstInterval, interval);; wait = std::min(2 * wait, interval)) {
    std::this_thread::sleep_for(wait);
    writeReport();
  }
}

void startWriter() {
  const SignalsBlocked blocked;
  try {
    std::thread(rewriteForEver).detach();
  } catch (const std::system_error& error) {
    CINCH_WARN("STATS",
               "the report is only written at the end: no thread to write it meanwhile: %s",
               error.what());
  }
}

void armOnce() {
  for (const std::string& warning : processParams().warnings)
    CINCH_WARN("INIT", "%s", warning.c_str());
  for (const std::string& notice : processParams().notices)
    CINCH_WARN("INIT", "%s", notice.c_str());
  if (const auto& rules = processRules(); !rules.ok())
    CINCH_WARN("INIT", "%s; nothing is compressed", rules.error().message.c_str());
  else
    for (const std::string& notice : rules.value().notices())
      CINCH_WARN("INIT", "CINCH_RULES: %s", notice.c_str());
  armedPid.store(getpid());
  std::atexit(writeReport);
  const Params& params = processParams().params;
  if (statsPath(params).empty() && metricsPath(params).empty() && tracePath(params).empty()) return;
  writeReport();
  startWriter();
}

// Every cause once: reports are written over and over.
void warnOf(const Result<void>& written) {
  static std::mutex mutex;
  static auto& said = *new std::set<std::string>;
  if (written) return;
  const std::lock_guard lock(mutex);
  if (said.insert(written.error().message).second)
    CINCH_WARN("STATS", "%s", written.error().message.c_str());
}

Result<void> writeTrace(const std::string& path) {
  static std::mutex mutex;  // two writers of one process share the temporary name
  const std::lock_guard lock(mutex);
  const std::string text = formatTrace(processTrace().figures(processReport().origin()));
  const Result<void> written = replaceFile(path + ".trace.json", text);
  if (written) return {};
  return errorf(written.error().status, "%s (CINCH_TRACE says where the trace goes)",
                written.error().message.c_str());
}

static_assert(kReasonCount <= kMaxReasons);

CommStats& othersStats() {
  return processReport().addComm(
      {.name = "other communicators",
       .verdict = "pass: made in a way that this version does not follow",
       .reasons = kReasonNames,
       .classes = kReasonClasses});
}

}  // namespace

Report& processReport() {
  static auto& report = *new Report;
  return report;
}

void countOther(uint64_t nBytes) {
  if (processParams().params.mode == Mode::off) return;
  static CommStats& stats = othersStats();
  constexpr auto kIndex = static_cast<size_t>(Reason::unknownComm);
  stats.passedCalls[kIndex].fetch_add(1, std::memory_order_relaxed);
  stats.passedBytes[kIndex].fetch_add(nBytes, std::memory_order_relaxed);
}

void arm() {
  static std::once_flag once;
  std::call_once(once, armOnce);
}

void writeReport() {
  if (armedPid.load() != getpid()) return;  // never armed, or a forked child
  const Params& params = processParams().params;
  const std::string report = statsPath(params), metrics = metricsPath(params);
  const Decisions::Waits waits = Decisions::waits();
  processReport().setWaits(waits.count, std::chrono::duration<double>(waits.total).count());
  if (!report.empty()) warnOf(processReport().write(report));
  if (!metrics.empty()) warnOf(processReport().writeMetrics(metrics));
  if (const std::string trace = tracePath(params); !trace.empty()) warnOf(writeTrace(trace));
}

}  // namespace cinch
