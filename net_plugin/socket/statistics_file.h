// The report's files, beside those of libcinch.so: CINCH_STATS with .net.txt and .net.json.
#pragma once

#include <mutex>

#include "net_plugin/log.h"
#include "net_plugin/socket/network.h"

namespace cinch::net {

class StatisticsFile {
 public:
  // `network` outlives it. Without CINCH_STATS nothing is ever written.
  StatisticsFile(Network& network, const Params& params);

  // Every CINCH_STATS_INTERVAL; for one thread, which may ask as often as it likes.
  void writeIfDue(Clock::time_point now);
  // Now; from any thread.
  void write();

 private:
  Network& network_;
  const std::string path_;  // empty: none is asked for
  const Clock::duration interval_;
  Clock::time_point due_;

  std::mutex mutex_;  // of who writes
  LineLimit failureLines_{LogLevel::warn, "reports that cannot be written"};
};

}  // namespace cinch::net
