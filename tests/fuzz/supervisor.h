// Runs programs, each as a set of processes of its own, and sees to it that they end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz/expectation.h"
#include "tests/fuzz/generator.h"

namespace cinch::fuzz {

struct RunSettings {
  std::string outPath;  // results are appended here
  Tolerance tolerance;
  Features features;
  std::vector<int> dropped;  // steps left out
  int deadline = 30;         // seconds per program
  int ranksPerHost = 1;      // processes that share a host
};

// Must be called by a process that has one thread and has not used NCCL or CUDA.
void runProgram(uint64_t seed, const RunSettings& settings);

}  // namespace cinch::fuzz
