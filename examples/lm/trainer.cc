#include "examples/lm/trainer.h"

#include <stdexcept>

#include "examples/lm/parameter_hash.h"

namespace lm {
namespace {

constexpr size_t kHeldOutSamples = 4096;

// What the ranks tell each other at an evaluation.
struct RankReport {
  double loss;
  uint64_t parameterHash;
};

std::vector<RankReport> gatherReports(Communicator& communicator, const RankReport& own) {
  std::vector<RankReport> reports(static_cast<size_t>(communicator.ranks()));
  const DeviceMemory sent(sizeof own);
  const DeviceMemory gathered(sizeof own * reports.size());
  communicator.stream().copy(sent.data(), &own, sizeof own);
  communicator.run("ncclAllGather", [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclAllGather(sent.data(), gathered.data(), sizeof own, ncclUint8, comm, stream);
  });
  communicator.stream().copy(reports.data(), gathered.data(), sizeof own * reports.size());
  return reports;
}

void checkEqualParameters(const std::vector<RankReport>& reports, int step) {
  for (size_t rank = 1; rank < reports.size(); ++rank)
    if (reports[rank].parameterHash != reports[0].parameterHash)
      throw std::runtime_error("after step " + std::to_string(step) + " the parameters of rank " +
                               std::to_string(rank) + " differ from those of rank 0");
}

// The time since it was made, without what it is told to leave out.
class Stopwatch {
 public:
  double seconds() const { return monotonicSeconds() - started_; }
  template <class Work>
  void exclude(Work work) {
    const double before = monotonicSeconds();
    work();
    started_ += monotonicSeconds() - before;
  }

 private:
  double started_ = monotonicSeconds();
};

}  // namespace

Trainer::Trainer(const Options& options, TextCorpus corpus, Communicator& communicator)
    : options_(options),
      corpus_(std::move(corpus)),
      communicator_(communicator),
      model_(options.shape, options.seed),
      adam_(model_.parameters().size()),
      bucket_(communicator, model_.parameters().size(), options.gradientType, options.reduction),
      dump_(options, model_.parameters().size()),
      log_(options.log, options.progress && options.rank == 0, options.steps),
      gradient_(model_.parameters().size()) {}

void Trainer::broadcastParameters() {
  const std::span<float> parameters = model_.parameters();
  const DeviceMemory memory(parameters.size_bytes());
  communicator_.stream().copy(memory.data(), parameters.data(), parameters.size_bytes());
  communicator_.run("ncclBroadcast", [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclBroadcast(memory.data(), memory.data(), parameters.size(), ncclFloat32, 0, comm,
                         stream);
  });
  communicator_.stream().copy(parameters.data(), memory.data(), parameters.size_bytes());
}

InterfaceCounters Trainer::readCounters() const {
  return options_.interface.empty() ? InterfaceCounters{}
                                    : readInterfaceCounters(options_.interface);
}

EvaluationRecord Trainer::evaluate(int step) {
  const auto rank = static_cast<size_t>(options_.rank);
  const auto ranks = static_cast<size_t>(options_.ranks);
  const Batch batch = corpus_.heldOutBatch(kHeldOutSamples, rank, ranks, model_.shape().context);
  const RankReport own{model_.totalLoss(batch), hashParameters(model_.parameters())};
  const std::vector<RankReport> reports = gatherReports(communicator_, own);
  checkEqualParameters(reports, step);
  double loss = 0;
  for (const RankReport& report : reports) loss += report.loss;
  return {step, trainSeconds_, loss / kHeldOutSamples, own.parameterHash};
}

void Trainer::trainStep(int step) {
  Stopwatch watch;
  const Batch batch = corpus_.trainingBatch(options_.seed, static_cast<uint64_t>(step),
                                            options_.rank, options_.batch, model_.shape().context);
  StepRecord record;
  record.step = step;
  record.loss = model_.lossAndGradient(batch, gradient_);
  bucket_.prepare(gradient_);
  watch.exclude([&] { dump_.addSent(step, gradient_); });
  record.reduction = bucket_.allReduce(gradient_);
  watch.exclude([&] { dump_.addReduced(gradient_); });
  adam_.update(gradient_, learningRate(step, options_.steps, options_.rate), model_.parameters());
  record.seconds = watch.seconds();
  record.counters = readCounters();
  trainSeconds_ += record.seconds;
  log_.add(record);
}

void Trainer::run() {
  broadcastParameters();
  const EvaluationRecord first = evaluate(0);
  log_.add(first);
  for (int step = 0; step < options_.steps; ++step) {
    trainStep(step);
    const int done = step + 1;
    if (options_.evalEvery > 0 && done % options_.evalEvery == 0 && done < options_.steps)
      log_.add(evaluate(done));
  }
  const EvaluationRecord last = evaluate(options_.steps);
  log_.add(last);
  log_.finish(first, last, model_.parameters().size());
  dump_.finish();
}

}  // namespace lm
