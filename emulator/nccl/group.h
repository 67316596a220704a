// What a thread has called between ncclGroupStart and ncclGroupEnd. A call outside a group is a
// group of one.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "emulator/nccl/communicator.h"
#include "emulator/nccl/launch.h"

namespace cinch::emulator {

// A call that is carried out when its group ends and is no communication.
struct Job {
  std::shared_ptr<Communicator> communicator;  // whose state shows the job
  bool isSetUp;                                // of `communicator` itself
  std::function<Result<void>()> run;
};

class Group {
 public:
  // The calling thread's.
  static Group& current();

  void start() { ++depth_; }
  // Ends one level; the outermost end carries out everything, or nothing if a call had failed.
  // Where the communicators are non-blocking, another thread does it and this fails with
  // Status::inProgress.
  Result<void> end();
  // The same, but the outermost end communicates nothing and tells how long that would have taken.
  Result<void> simulateEnd(float* microseconds);

  // Fails where the group holds communicators of the other kind, blocking or not.
  Result<void> addOperation(std::shared_ptr<Communicator> communicator, const Operation& operation,
                            cudaStream_t stream);
  // Jobs of different communicators run side by side: one thread may make several ranks.
  Result<void> addJob(Job job);
  void fail(const Error& error);

 private:
  struct Calls {
    std::vector<Batch> batches;  // in the order of first use
    std::vector<Job> jobs;
    std::optional<bool> blocking;
    std::optional<Error> error;
  };

  Result<void> agreeOnBlocking(const Communicator& communicator);
  static Result<void> check(Calls& calls);
  static Result<void> carryOut(Calls calls);
  static Result<void> perform(Calls calls);

  int depth_ = 0;
  Calls calls_;
};

// Replaces the sends and receives of `rank` to itself by copies. Fails where they do not pair up.
Result<std::vector<Operation>> pairSelfTransfers(const std::vector<Operation>& operations,
                                                 int rank);

}  // namespace cinch::emulator
