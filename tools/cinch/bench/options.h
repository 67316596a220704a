// The command line of `cinch bench`: nccl-tests' flags, and how the ranks are started.
#pragma once

#include <cstdint>
#include <string>

#include "common/result.h"
#include "tools/cinch/bench/collective.h"

namespace CLI {
class App;
}

namespace cinch::bench {

struct Options {
  std::string collective;
  uint64_t minBytes = 32 << 20;
  uint64_t maxBytes = 32 << 20;
  uint64_t stepBytes = 1 << 20;
  double stepFactor = 1;
  int iterations = 20;
  int warmups = 5;
  int checks = 1;
  std::string operation = "sum";
  std::string dataType = "float";
  int graphLaunches = 0;
  uint64_t unaligned = 0;  // index of the first value in its buffer
  std::string jsonFile;

  int ranks = 0;  // 0: as many as the launcher has, else as there are GPUs
  int hosts = 0;  // 0: as they are
  std::string idFile;
  int timeoutSeconds = 600;
  std::string nccl;
  bool emulator = false;
  std::string plotFile;
  double linkGigabits = 0;

  Sweep sweep() const { return {minBytes, maxBytes, stepBytes, stepFactor}; }
};

void addOptions(CLI::App& command, Options& options);

// What no single option shows. The error names the option and what to do.
Result<void> checkOptions(const Options& options);

}  // namespace cinch::bench
