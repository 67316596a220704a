// What a thread has called between ncclGroupStart and ncclGroupEnd. A call outside a group is a
// group of one.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "emulator/nccl/communicator.h"

namespace cinch::emulator {

class Group {
 public:
  // The calling thread's.
  static Group& current();

  void start() { ++depth_; }
  // Ends one level; the outermost end carries out everything, or nothing if a call had failed.
  Result<void> end();

  void addOperation(std::shared_ptr<Communicator> communicator, const Operation& operation,
                    cudaStream_t stream);
  // Initialisations run side by side when the group ends: one thread may make several ranks.
  void addInitialisation(std::function<Result<void>()> initialise);
  void fail(const Error& error);

 private:
  struct Batch {
    std::shared_ptr<Communicator> communicator;
    std::vector<Operation> operations;
    std::vector<cudaStream_t> streams;  // each once
  };
  struct Calls {
    std::vector<Batch> batches;  // in the order of first use
    std::vector<std::function<Result<void>()>> initialisations;
    std::optional<Error> error;
  };

  static Result<void> carryOut(Calls calls);

  int depth_ = 0;
  Calls calls_;
};

// Replaces the sends and receives of `rank` to itself by copies. Fails where they do not pair up.
Result<std::vector<Operation>> pairSelfTransfers(const std::vector<Operation>& operations,
                                                 int rank);

}  // namespace cinch::emulator
