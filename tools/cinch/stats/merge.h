// What all ranks of a job have done, from the reports of each. Pure.
#pragma once

#include <map>

#include "tools/cinch/stats/rank_report.h"

namespace cinch::stats {

// A slot of a communicator, on all ranks that tell of it.
struct MergedSlot {
  std::string call;
  std::string codec;  // in force at the rank that was read last
  size_t nRanks = 0;
  uint64_t calls = 0;  // of the rank with most
  uint64_t bytesIn = 0, wireBytes = 0;
  double ratio = 0;  // as SlotFigures::ratio
  double nmse = 0;   // of the rank where it is largest; 0: not measured
  double bitsPerValue = 0;
  uint64_t checks = 0, breaches = 0;
  uint64_t drops = 0;  // of residuals
  // Bytes a second and rank: since the reports before, or since the first communicator.
  double payloadRate = 0, wireRate = 0;
};

struct MergedPass {
  uint64_t calls = 0, bytes = 0;
};

struct MergedComm {
  std::string name;
  std::string verdict;
  int nRanks = 0;       // that it has
  size_t nReports = 0;  // that tell of it
  std::vector<MergedSlot> slots;
  std::map<std::string, MergedPass> passed;  // by reason
};

struct Merged {
  std::vector<MergedComm> comms;
  size_t nReports = 0;
  double oldest = 0, newest = 0;  // of the reports: when they were written
};

// What processes wrote before their newest reports, as far as that was seen.
class History {
 public:
  // Takes note of these, and returns for each process of them the one before, if there was one.
  std::vector<RankReport> before(const std::vector<RankReport>& reports);

 private:
  using Process = std::pair<std::string, int>;  // host and number
  std::map<Process, RankReport> last_, before_;
};

// `before`: earlier reports of the same processes. Those of others count from their start.
Merged merge(const std::vector<RankReport>& reports, const std::vector<RankReport>& before = {});

}  // namespace cinch::stats
