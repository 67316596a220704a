// All operations that one group gave to one communicator. The plan may start when every stream of
// the group that it was called with has come to it, and these go on when it is done.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "emulator/nccl/operation.h"
#include "emulator/nccl/wakeup.h"

namespace cinch::emulator {

class Plan {
 public:
  // `wakeup` belongs to the progress thread that will run the plan. `mayOvertake`: earlier plans
  // that are not ready do not hold it up, since its streams keep the order.
  Plan(std::vector<Operation> operations, int nStreams, bool mayOvertake,
       std::shared_ptr<Wakeup> wakeup)
      : operations_(std::move(operations)),
        mayOvertake_(mayOvertake),
        wakeup_(std::move(wakeup)),
        nStreamsMissing_(nStreams) {}

  const std::vector<Operation>& operations() const { return operations_; }
  bool mayOvertake() const { return mayOvertake_; }
  bool isReady() const { return nStreamsMissing_.load() == 0; }

  // A stream has come.
  void arrive() {
    if (nStreamsMissing_.fetch_sub(1) == 1) wakeup_->notify();
  }
  // Returns once the plan is done or abandoned.
  void wait() const { done_.wait(0); }
  void finish() {
    done_.store(1);
    done_.notify_all();
  }

 private:
  const std::vector<Operation> operations_;
  const bool mayOvertake_;
  const std::shared_ptr<Wakeup> wakeup_;
  std::atomic<int> nStreamsMissing_;
  std::atomic<int> done_{0};  // an int: the type that threads can sleep on directly
};

}  // namespace cinch::emulator
