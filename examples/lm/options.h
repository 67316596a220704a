// The command line of train_lm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "examples/lm/byte_lm.h"

namespace lm {

enum class GradientType { fp32, bf16 };
enum class Reduction { sum, average };

struct Options {
  int rank = 0;
  int ranks = 1;
  std::string idFile;
  int timeoutSeconds = 60;

  Shape shape;
  int steps = 200;
  size_t batch = 64;  // samples per rank and step
  float rate = 1e-3f;
  uint64_t seed = 1;
  std::string text;  // empty: CMake's help files
  GradientType gradientType = GradientType::fp32;
  Reduction reduction = Reduction::sum;

  std::string log;
  std::string interface;
  int evalEvery = 0;
  bool progress = false;
  std::string dumpGradients;
  std::vector<int> dumpSteps;
  std::string dumpSums;

  std::string help;  // not empty: the user asked for it, nothing else was read
};

// Throws std::runtime_error, which names the option, what is wrong with it and what it takes.
Options parseOptions(int argc, const char* const* argv);

}  // namespace lm
