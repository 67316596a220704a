#include "net_plugin/socket/statistics_file.h"

#include "common/report_file.h"

namespace cinch::net {
namespace {

std::string pathOf(const Params& params) {
  const std::string path = statsPath(params);
  return path.empty() ? path : path + ".net";
}

}  // namespace

StatisticsFile::StatisticsFile(Network& network, const Params& params)
    : network_(network),
      path_(pathOf(params)),
      interval_(std::chrono::seconds(params.statsInterval)),
      due_(Clock::now() + interval_) {}

void StatisticsFile::writeIfDue(Clock::time_point now) {
  if (path_.empty() || now < due_) return;
  due_ = now + interval_;
  write();
}

void StatisticsFile::write() {
  if (path_.empty()) return;
  std::lock_guard lock(mutex_);
  const NetworkFigures figures = network_.figures();
  const Result<void> written = writeReportFiles(path_, formatText(figures), formatJson(figures));
  if (written || !failureLines_.admits()) return;
  CINCH_NET_WARN("%s", written.error().message.c_str());
}

}  // namespace cinch::net
