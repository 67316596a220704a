#include "emulator/nccl/service_thread.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "emulator/nccl/debug.h"

namespace cinch::emulator {
namespace {

using std::chrono::microseconds;

// Between two rounds of attempts: short while connections are made, longer where a rank waits for
// one that does not call.
constexpr microseconds kShortestPause{50};
constexpr microseconds kLongestPause{1000};

}  // namespace

ServiceThread::ServiceThread(int device) : thread_([this, device] { serve(device); }) {}

void ServiceThread::retry(std::function<bool()> attempt) {
  std::lock_guard lock(mutex_);
  new_.push_back(std::move(attempt));
  changed_.notify_one();
}

void ServiceThread::run(const std::function<void()>& action) {
  std::promise<void> done;
  retry([&] {
    action();
    done.set_value();
    return true;
  });
  done.get_future().wait();
}

void ServiceThread::stop(const std::function<void()>& last) {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    last_ = last;
    changed_.notify_one();
  }
  thread_.join();
}

void ServiceThread::serve(int device) {
  pthread_setname_np(pthread_self(), "NCCL Service");
  setDebugDevice(device);
  Attempts attempts;
  microseconds pause = kShortestPause;
  while (takeNew(attempts, pause)) {
    const bool ended = attempts.remove_if([](const auto& attempt) { return attempt(); }) > 0;
    pause = ended ? kShortestPause : std::min(pause * 2, kLongestPause);
  }
  last_();
}

// Waits for something to do, for `pause` where there already is. False: the thread is to end.
bool ServiceThread::takeNew(Attempts& attempts, microseconds pause) {
  std::unique_lock lock(mutex_);
  const auto isAwaited = [&] { return stopping_ || !new_.empty(); };
  if (attempts.empty()) {
    changed_.wait(lock, isAwaited);
  } else {
    changed_.wait_for(lock, pause, isAwaited);
  }
  attempts.splice(attempts.end(), new_);
  return !stopping_;
}

}  // namespace cinch::emulator
