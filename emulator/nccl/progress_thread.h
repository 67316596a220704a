// The thread that carries out a communicator's plans, one after another in the order of submission.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "common/result.h"
#include "emulator/nccl/connections.h"
#include "emulator/nccl/plan.h"
#include "emulator/nccl/plan_run.h"

namespace cinch::emulator {

class ProgressThread {
 public:
  // `connections` outlives the thread, which alone uses it. Log lines carry `device`.
  ProgressThread(Connections& connections, int device);
  ~ProgressThread() { stop(); }

  const std::shared_ptr<Wakeup>& wakeup() const { return wakeup_; }

  // Queues a plan. Refuses after a failure or stop(): the plan is then finished.
  Result<void> submit(const std::shared_ptr<Plan>& plan);
  // Waits until every plan is done or abandoned.
  void flush();
  // Gives up for the reason `error`: all plans are abandoned and no more are taken.
  void fail(const Error& error);
  // Abandons all plans and ends the thread. From any thread, more than once.
  void stop();

  // ncclSuccess, or what the first failure was.
  ncclResult_t error() const { return error_.load(); }
  // Whether it takes plans.
  bool isRunning() const { return !stopping_.load() && error() == ncclSuccess; }

 private:
  void run();
  std::shared_ptr<Plan> nextPlan();
  Result<void> carryOut(const Plan& plan);
  void waitToMove(const PlanRun& run, Clock::time_point lastMove);
  void sleepUntilReady();
  void retire(const std::shared_ptr<Plan>& plan);
  void abandonAll();

  Connections& connections_;
  const int device_;
  const std::shared_ptr<Wakeup> wakeup_;
  std::atomic<bool> stopping_{false};
  std::atomic<ncclResult_t> error_{ncclSuccess};
  std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<std::shared_ptr<Plan>> plans_;  // one of them may be running
  std::mutex joinMutex_;
  std::thread thread_;
};

}  // namespace cinch::emulator
