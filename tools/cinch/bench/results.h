// What a run has found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/cinch/bench/check.h"
#include "tools/cinch/bench/collective.h"
#include "tools/cinch/bench/outcome.h"
#include "tools/cinch/bench/tolerance.h"

namespace cinch::bench {

// What was checked, over all ranks.
struct Checked {
  uint64_t wrong = 0;
  double nmse = 0;
  double largestError = 0;
  Tolerance tolerance;
};

// One size, out of place or in place.
struct Phase {
  double microseconds = 0;  // of a call; the mean over the ranks
  Bandwidth bandwidth{};
  std::optional<Checked> checked;
  Path path = Path::plain;
  std::string codec;   // where anything was compressed
  std::string reason;  // why calls passed, where they did
  double ratio = 1;    // bytes that a ring sends uncompressed, over those that were sent
};

struct Row {
  Shape shape;
  std::string type;
  std::string operation;
  Phase outOfPlace;
  Phase inPlace;
};

struct RankPlace {
  int pid = 0;
  std::string host;
  int device = 0;
  std::string bus;  // PCI id
};

// What was run, and on what.
struct RunFacts {
  std::string collective;
  std::string ncclVersion;
  std::string ncclPath;
  bool emulator = false;
  bool cinch = false;
  std::string settings;  // of Cinch
  int ranks = 1;
  int hosts = 0;  // that were asked for; 0: as they are
  uint64_t minBytes = 0, maxBytes = 0, stepBytes = 0;
  double stepFactor = 1;
  int iterations = 0, warmups = 0, checks = 0, graphLaunches = 0;
  uint64_t unaligned = 0;
};

struct Totals {
  uint64_t wrong = 0;
  double busBandwidth = 0;  // mean over all rows, out of place and in place
};
Totals totalsOf(const std::vector<Row>& rows);

}  // namespace cinch::bench
