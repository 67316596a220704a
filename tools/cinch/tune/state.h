// The file of a sweep that is under way: a line of JSON for each pair that was measured. A command
// that is killed loses the pair that it was at, and nothing else.
#pragma once

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
  static Result<State> open(const Options& options);

  const std::vector<PairResult>& results() const { return results_; }
  Result<void> add(PairResult result);

 private:
  State(std::string path, std::vector<PairResult> results)
      : path_(std::move(path)), results_(std::move(results)) {}

  std::string path_;
  std::vector<PairResult> results_;  // of the first pairs of the sweep, in their order
};

}  // namespace cinch::tune
