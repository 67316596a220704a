// What a rank reports of its run: JSON lines in a file, and a progress line on the terminal.
#pragma once

#include <cstdio>
#include <fstream>
#include <string>

#include "examples/lm/gradient_bucket.h"
#include "examples/lm/interface_counters.h"

namespace lm {

struct StepRecord {
  int step = 0;
  double loss = 0;  // of this rank's batch, before the update
  Interval reduction;
  double seconds = 0;          // of the whole step
  InterfaceCounters counters;  // at its end
};

struct EvaluationRecord {
  int step = 0;             // steps done
  double trainSeconds = 0;  // spent in steps so far
  double loss = 0;          // held-out, nats per byte
  uint64_t parameterHash = 0;
};

// {"step":..,"loss":..,"t_enter":..,"t_done":..,"t_step":..,"rx_bytes":..,"tx_bytes":..}
// {"eval_step":..,"train_s":..,"held_out":..,"hash":".."}
// {"final":true,"held_out_first":..,"held_out":..,"hash":"..","parameters":..}
class StepLog {
 public:
  // Writes to `path`, nowhere where it is empty. Throws where that cannot be written.
  StepLog(const std::string& path, bool progress, int steps);

  void add(const StepRecord& record);
  void add(const EvaluationRecord& record);
  void finish(const EvaluationRecord& first, const EvaluationRecord& last, size_t parameters);

 private:
  std::ofstream file_;
  bool progress_;
  int steps_;
};

}  // namespace lm
