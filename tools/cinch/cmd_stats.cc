#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "common/text_file.h"
#include "tools/cinch/commands.h"
#include "tools/cinch/stats/view.h"

namespace cinch {
namespace {

namespace fs = std::filesystem;
using stats::RankReport;

constexpr const char* kClearScreen = "\033[H\033[J";

bool isReportName(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".json") && !name.ends_with(".net.json");
}

// Files, and of folders what is in them and called like a report.
std::vector<std::string> reportFiles(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(path, error)) {
      if (isReportName(entry.path())) files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// All of them, or an error that names the file.
Result<std::vector<RankReport>> readReports(const std::vector<std::string>& paths) {
  const std::vector<std::string> files = reportFiles(paths);
  if (files.empty())
    return errorf(Status::invalidUsage, "no report is in %s", paths.front().c_str());
  std::vector<RankReport> reports;
  for (const std::string& file : files) {
    const auto text = readTextFile(file);
    if (!text)
      return errorf(Status::systemError, "%s: %s", file.c_str(), text.error().message.c_str());
    Result<RankReport> report = stats::parseReport(text.value());
    if (!report) {
      return errorf(Status::invalidArgument, "%s: %s", file.c_str(),
                    report.error().message.c_str());
    }
    reports.push_back(std::move(report.value()));
  }
  return reports;
}

double secondsNow() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// A view of its own on a terminal, one below the other elsewhere.
void show(const stats::Merged& merged, const StatsOptions& options) {
  const bool isText = options.format == OutputFormat::text;
  if (options.watch > 0 && isText && isatty(STDOUT_FILENO) == 1) fmt::print(kClearScreen);
  fmt::print("{}", isText ? viewText(merged, secondsNow()) : viewJson(merged));
  fflush(stdout);
}

}  // namespace

// Rates are those between a process's last two reports, once it has written a second one.
int showStats(const StatsOptions& options) {
  stats::History history;
  for (int view = 1;; ++view) {
    Result<std::vector<RankReport>> reports = readReports(options.files);
    if (!reports) {
      fmt::print(stderr, "cinch stats: {}\n", reports.error().message);
      return kExitUsage;
    }
    show(stats::merge(reports.value(), history.before(reports.value())), options);
    if (options.watch == 0 || view == options.views) return kExitOk;
    std::this_thread::sleep_for(std::chrono::duration<double>(options.watch));
  }
}

}  // namespace cinch
