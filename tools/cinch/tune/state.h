// The file of a sweep that is under way: a line of JSON for each pair that was measured. A command
// that is killed loses the pair that it was at, and nothing else. One process at a time has it.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "tools/cinch/tune/combination.h"
#include "tools/cinch/tune/measurement.h"

namespace cinch::tune {

struct PairResult {
  std::optional<Measurement> own;        // NCCL's own choice; nothing where the pair was left out
  std::optional<Measurement> candidate;  // nothing where NCCL refuses the combination
  std::string refusal;                   // why
};

class State {
 public:
  // Goes on with the sweep in the file where that is the same and has not ended; else begins anew.
  // An error where another process has the file, or where it holds something else.
  static Result<State> open(const Options& options);

  const std::vector<PairResult>& results() const { return results_; }
  Result<void> add(PairResult result);
  // What was measured has been made use of.
  Result<void> end();

 private:
  using File = std::unique_ptr<FILE, int (*)(FILE*)>;
  State(std::string path, File file, std::vector<PairResult> results)
      : path_(std::move(path)), file_(std::move(file)), results_(std::move(results)) {}
  Result<void> write(const std::string& line);

  std::string path_;
  File file_;                        // locked
  std::vector<PairResult> results_;  // of the first pairs of the sweep, in their order
};

}  // namespace cinch::tune
