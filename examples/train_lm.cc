// Trains a byte-level language model on real text with one process per rank, as any data-parallel
// job does: rank 0 gives its parameters to all, every rank computes the gradient of its own batch,
// NCCL reduces the gradients, every rank takes the same step. It uses the public APIs of the CUDA
// runtime and of NCCL, and nothing else of either.
//
//   train_lm --ranks 2 --rank 0 --id-file /tmp/job --progress &
//   train_lm --ranks 2 --rank 1 --id-file /tmp/job
#include <cstdio>
#include <exception>

#include "examples/lm/rendezvous.h"
#include "examples/lm/trainer.h"

namespace {

void train(const lm::Options& options) {
  // What can be wrong with this rank alone shows before it meets the others.
  lm::TextCorpus corpus = lm::TextCorpus::load(options.text);
  if (!options.interface.empty()) lm::readInterfaceCounters(options.interface);
  lm::useDevice(options.rank);
  const lm::Rendezvous rendezvous{options.idFile, options.rank, options.ranks,
                                  options.timeoutSeconds};
  const std::string id = rendezvous.exchange(lm::makeUniqueId);
  lm::Communicator communicator(options.rank, options.ranks, id, options.timeoutSeconds);
  if (options.rank == 0) rendezvous.removeFiles();
  lm::Trainer(options, std::move(corpus), communicator).run();
  communicator.close();
}

}  // namespace

int main(int argc, char** argv) {
  lm::Options options;
  try {
    options = lm::parseOptions(argc, argv);
    if (options.help.empty())
      train(options);
    else
      std::fputs(options.help.c_str(), stdout);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_lm: rank %d: %s\n", options.rank, error.what());
    return 1;
  }
}
