#include "emulator/nccl/progress_thread.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>

#include "emulator/nccl/debug.h"

namespace cinch::emulator {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

// Spinning pays while a peer answers within it; longer would take the core from those who compute.
constexpr microseconds kSpin{50};
// Where there is nothing to sleep on NCCL never stops spinning. Ranks that share a core would not
// get far with that: naps follow, the longer the longer nothing has moved.
constexpr microseconds kBlindSpin{1000};
constexpr nanoseconds kShortestNap = microseconds(50);
constexpr nanoseconds kLongestNap = microseconds(500);

}  // namespace

ProgressThread::ProgressThread(Connections& connections, int device)
    : connections_(connections),
      device_(device),
      wakeup_(connections.wakeup()),
      thread_([this] { run(); }) {}

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
  idle_.wait(lock, [&] { return plans_.empty() || !isRunning(); });
}

void ProgressThread::fail(const Error& error) {
  ncclResult_t none = ncclSuccess;
  error_.compare_exchange_strong(none, static_cast<ncclResult_t>(error.status));
  report(error);
  wakeup_->notify();
  const std::lock_guard lock(mutex_);
  idle_.notify_all();
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
  // As NCCL's kernels, which wait for the peer that is gone until the communicator is aborted:
  // streams do not go on with what was not reduced.
  while (!stopping_.load()) sleepUntilReady();
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
    } else {
      waitToMove(run, lastMove);
    }
  }
  return {};
}

// Spins at first; then sleeps until a socket is ready or somebody notifies, at most for a nap where
// the network has no socket to wait for.
void ProgressThread::waitToMove(const PlanRun& run, Clock::time_point lastMove) {
  const bool blind = !connections_.isPollable();
  const nanoseconds idle = Clock::now() - lastMove;
  if (idle < (blind ? kBlindSpin : kSpin)) {
    if (blind) sched_yield();
    return;
  }
  std::vector<pollfd> targets{{wakeup_->descriptor(), POLLIN, 0}};
  run.addPollTargets(&targets);
  const timespec nap{0, std::clamp((idle - kBlindSpin) / 8, kShortestNap, kLongestNap).count()};
  ppoll(targets.data(), targets.size(), blind ? &nap : nullptr, nullptr);
  wakeup_->drain();
}

void ProgressThread::sleepUntilReady() {
  pollfd target{wakeup_->descriptor(), POLLIN, 0};
  poll(&target, 1, -1);
  wakeup_->drain();
}

}  // namespace cinch::emulator
