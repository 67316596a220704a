#include "emulator/nccl/progress_thread.h"

#include <poll.h>
#include <pthread.h>

#include <chrono>

#include "emulator/nccl/debug.h"

namespace cinch::emulator {
namespace {

// Spinning pays while a peer answers within it; longer would take the core from those who compute.
constexpr auto kSpin = std::chrono::microseconds(50);
// Between two looks at something that has no descriptor to sleep on.
constexpr timespec kBlindSleep = {0, 500'000};

}  // namespace

ProgressThread::ProgressThread(Connections& connections, int device)
    : connections_(connections), device_(device), thread_([this] { run(); }) {}

Result<void> ProgressThread::submit(const std::shared_ptr<Plan>& plan) {
  std::lock_guard lock(mutex_);
  if (!isRunning()) {
    plan->finish();
    const Status status = stopping_.load() ? Status::invalidUsage : static_cast<Status>(error());
    return errorf(status, "rank %d: the communicator %s: nothing more can be called on it",
                  connections_.rank(), stopping_.load() ? "was aborted" : "failed before");
  }
  plans_.push_back(plan);
  wakeup_->notify();
  return {};
}

void ProgressThread::flush() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return plans_.empty(); });
}

void ProgressThread::fail(const Error& error) {
  ncclResult_t none = ncclSuccess;
  error_.compare_exchange_strong(none, static_cast<ncclResult_t>(error.status));
  report(error);
  wakeup_->notify();
}

void ProgressThread::stop() {
  stopping_.store(true);
  wakeup_->notify();
  std::lock_guard lock(joinMutex_);
  if (thread_.joinable()) thread_.join();
}

void ProgressThread::run() {
  pthread_setname_np(pthread_self(), "NCCL Progress");
  setDebugDevice(device_);
  while (isRunning()) {
    const std::shared_ptr<Plan> plan = nextPlan();
    if (plan == nullptr) {
      sleepUntilReady();
      continue;
    }
    if (const Result<void> result = carryOut(*plan); !result) fail(result.error());
    if (isRunning()) retire(plan);
  }
  abandonAll();
}

// The oldest plan whose streams have come to it; none behind one that must be waited for.
std::shared_ptr<Plan> ProgressThread::nextPlan() {
  std::lock_guard lock(mutex_);
  for (const std::shared_ptr<Plan>& plan : plans_) {
    if (plan->isReady()) return plan;
    if (!plan->mayOvertake()) return nullptr;
  }
  return nullptr;
}

void ProgressThread::retire(const std::shared_ptr<Plan>& plan) {
  std::lock_guard lock(mutex_);
  std::erase(plans_, plan);
  plan->finish();
  if (plans_.empty()) idle_.notify_all();
}

// After a failure or stop(): submit() refuses from here on.
void ProgressThread::abandonAll() {
  std::lock_guard lock(mutex_);
  for (const std::shared_ptr<Plan>& plan : plans_) plan->finish();
  plans_.clear();
  idle_.notify_all();
}

Result<void> ProgressThread::carryOut(const Plan& plan) {
  PlanRun run(plan, connections_);
  Clock::time_point lastMove = Clock::now();
  while (!run.isDone() && isRunning()) {
    const Result<bool> moved = run.advance();
    if (!moved) return moved.error();
    if (moved.value()) {
      lastMove = Clock::now();
    } else if (Clock::now() - lastMove > kSpin) {
      CINCH_TRY(run.findDeserted(connections_));
      sleep(run);
    }
  }
  return {};
}

// Sleeps until a socket is ready or somebody notifies.
void ProgressThread::sleep(const PlanRun& run) {
  std::vector<pollfd> targets{{wakeup_->descriptor(), POLLIN, 0}};
  const bool complete = run.addPollTargets(&targets);
  ppoll(targets.data(), targets.size(), complete ? nullptr : &kBlindSleep, nullptr);
  wakeup_->drain();
}

void ProgressThread::sleepUntilReady() {
  pollfd target{wakeup_->descriptor(), POLLIN, 0};
  poll(&target, 1, -1);
  wakeup_->drain();
}

}  // namespace cinch::emulator
