// One rank of the data-parallel training job.
#pragma once

#include "examples/lm/adam.h"
#include "examples/lm/byte_lm.h"
#include "examples/lm/communicator.h"
#include "examples/lm/gradient_bucket.h"
#include "examples/lm/gradient_dump.h"
#include "examples/lm/options.h"
#include "examples/lm/step_log.h"
#include "examples/lm/text_corpus.h"

namespace lm {

class Trainer {
 public:
  Trainer(const Options& options, TextCorpus corpus, Communicator& communicator);
  // Trains from the first to the last step. Throws std::runtime_error where NCCL fails and where
  // the ranks' parameters differ.
  void run();

 private:
  // All ranks begin with the parameters of rank 0, as where PyTorch DDP wraps a model.
  void broadcastParameters();
  void trainStep(int step);
  InterfaceCounters readCounters() const;
  // Held-out loss over all ranks' shares of the positions; checks that all parameters are equal.
  EvaluationRecord evaluate(int step);

  const Options& options_;
  TextCorpus corpus_;
  Communicator& communicator_;
  ByteLm model_;
  Adam adam_;
  GradientBucket bucket_;
  GradientDump dump_;
  StepLog log_;
  std::vector<float> gradient_;
  double trainSeconds_ = 0;
};

}  // namespace lm
