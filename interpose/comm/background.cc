#include "interpose/comm/background.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "common/signals_blocked.h"

namespace cinch {
namespace {

using Task = std::function<bool()>;

constexpr std::chrono::microseconds kPollTime{200};

// Never destroyed: the thread runs until the process ends.
class Background {
 public:
  bool start() {
    const SignalsBlocked blocked;
    try {
      std::thread([this] { work(); }).detach();
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

  bool isStopped() const { return isStopped_.load(); }

  void add(Task task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    added_.notify_one();
  }

  // The device's runtime may be on its way out.
  void stop() { isStopped_.store(true); }

 private:
  void work() {
    for (;;) {
      Task task = take();
      // What it holds is not to be destroyed, either.
      if (isStopped_.load()) return add(std::move(task));
      if (task()) continue;
      std::this_thread::sleep_for(kPollTime);
      add(std::move(task));
    }
  }

  Task take() {
    std::unique_lock lock(mutex_);
    added_.wait(lock, [this] { return !tasks_.empty(); });
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    return task;
  }

  std::atomic<bool> isStopped_{false};
  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<Task> tasks_;
};

Background& background() {
  static auto& background = *new Background;
  return background;
}

struct Started {
  bool isRunning = background().start();
  pid_t process = getpid();
  int registered = std::atexit([] { background().stop(); });
};

}  // namespace

void useDevice(const DeviceTable& table, int device) {
  table.setDevice(device);
}

bool runInBackground(std::function<bool()> task) {
  static const Started started;
  if (!started.isRunning || started.process != getpid() || background().isStopped()) return false;
  background().add(std::move(task));
  return true;
}

}  // namespace cinch
