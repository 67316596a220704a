// The thread that sets a communicator's connections up and takes them down, as NCCL's proxy service
// thread does: listens, connects, accepts, registers memory and closes. Data is moved by another.
//
// What does not succeed at once is tried again, in turns with everything else: a rank's connect may
// depend on another rank's accept, and that one on a connect that waits here.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace cinch::emulator {

class ServiceThread {
 public:
  // Log lines carry `device`.
  explicit ServiceThread(int device);
  ~ServiceThread() {
    stop([] {});
  }

  // Calls `attempt` until it returns true. From any thread.
  void retry(std::function<bool()> attempt);
  // Calls `action` once, and returns when that is done.
  void run(const std::function<void()>& action);
  // Gives up all attempts, calls `last`, and ends the thread. Only the first call has an effect.
  void stop(const std::function<void()>& last);

 private:
  using Attempts = std::list<std::function<bool()>>;

  void serve(int device);
  bool takeNew(Attempts& attempts, std::chrono::microseconds pause);

  std::mutex mutex_;
  std::condition_variable changed_;
  Attempts new_;
  bool stopping_ = false;
  std::function<void()> last_;
  std::thread thread_;
};

}  // namespace cinch::emulator
