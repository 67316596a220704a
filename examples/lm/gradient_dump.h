// Files for whoever checks what a reduction did: chosen gradients, and sums over the whole run.
#pragma once

#include <fstream>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "examples/lm/options.h"

namespace lm {

// Sums in fp64, so that only the reduction itself rounds.
class GradientDump {
 public:
  // Throws where a file that `options` names cannot be written.
  GradientDump(const Options& options, size_t count);

  // `sent` is what this rank gives to the reduction of `step`.
  void addSent(int step, std::span<const float> sent);
  void addReduced(std::span<const float> reduced);
  // Writes the sums: all that was sent, then all that came back.
  void finish();

 private:
  std::set<int> steps_;
  std::ofstream gradients_;
  std::ofstream sums_;
  std::vector<double> sentSum_;  // empty where no sums are asked for
  std::vector<double> reducedSum_;
};

}  // namespace lm
