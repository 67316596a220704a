// The command line of `cinch tune`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.h"

namespace CLI {
class App;
}

namespace cinch::tune {

struct Options {
  std::vector<std::string> collectives = {"all_reduce", "reduce_scatter", "all_gather"};
  std::string minBytes = "1K";
  std::string maxBytes = "64M";
  double stepFactor = 4;
  int iterations = 20;
  int warmups = 5;
  std::vector<std::string> algorithms = {"tree", "ring", "nvls", "nvls_tree", "pat"};
  std::vector<std::string> protocols = {"ll", "ll128", "simple"};
  std::vector<std::string> channels = {"auto", "2", "4", "8", "16"};
  int repeats = 3;

  int ranks = 0;  // 0: as `cinch bench` has it
  int hosts = 0;
  int timeoutSeconds = 120;
  std::string nccl;
  bool emulator = false;
  std::string launcher;  // words in front of `cinch bench`

  std::string output;
  std::string state;
  std::string plotFile;
};

void addOptions(CLI::App& command, Options& options);

// What no single option shows; fills in the files that were not named. The error names the option
// and what to do.
Result<void> completeOptions(Options& options);

}  // namespace cinch::tune
