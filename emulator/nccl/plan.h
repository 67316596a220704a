// All operations that one group gave to one communicator, and their tie to the user's streams: the
// plan may start when every stream has come to it, and the streams go on when it is done.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <vector>

#include "common/result.h"
#include "emulator/nccl/operation.h"
#include "emulator/nccl/wakeup.h"

namespace cinch::emulator {

class Plan {
 public:
  // `wakeup` belongs to the progress thread that will run the plan.
  Plan(std::vector<Operation> operations, std::vector<cudaStream_t> streams,
       std::shared_ptr<Wakeup> wakeup)
      : operations_(std::move(operations)),
        streams_(std::move(streams)),
        wakeup_(std::move(wakeup)),
        nStreamsMissing_(static_cast<int>(streams_.size())) {}

  const std::vector<Operation>& operations() const { return operations_; }
  bool isReady() const { return nStreamsMissing_.load() == 0; }

  // Done, or abandoned: the streams go on.
  void finish() {
    done_.store(1);
    done_.notify_all();
  }

  // Puts the plan into each of its streams, where it stays alive until the stream has passed it.
  static Result<void> enqueue(const std::shared_ptr<Plan>& plan);

 private:
  static void CUDART_CB runInStream(void* plan);

  const std::vector<Operation> operations_;
  const std::vector<cudaStream_t> streams_;
  const std::shared_ptr<Wakeup> wakeup_;
  std::atomic<int> nStreamsMissing_;
  std::atomic<int> done_{0};  // an int: the type that threads can sleep on directly
};

}  // namespace cinch::emulator
