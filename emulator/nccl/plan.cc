#include "emulator/nccl/plan.h"

namespace cinch::emulator {

// Runs as a host function on a stream's worker: the stream stands still until the plan is done.
void Plan::runInStream(void* plan) {
  const std::unique_ptr<std::shared_ptr<Plan>> owner(static_cast<std::shared_ptr<Plan>*>(plan));
  Plan& self = **owner;
  if (self.nStreamsMissing_.fetch_sub(1) == 1) self.wakeup_->notify();
  self.done_.wait(0);
}

Result<void> Plan::enqueue(const std::shared_ptr<Plan>& plan) {
  for (const cudaStream_t stream : plan->streams_) {
    auto owner = std::make_unique<std::shared_ptr<Plan>>(plan);
    const cudaError_t error = cudaLaunchHostFunc(stream, runInStream, owner.get());
    if (error != cudaSuccess) {
      return errorf(Status::cudaError, "cannot enqueue a collective on stream %p: %s",
                    static_cast<void*>(stream), cudaGetErrorString(error));
    }
    owner.release();
  }
  return {};
}

}  // namespace cinch::emulator
