// An in-order queue of tasks with a worker thread of its own: the engine of a stream.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace cinch::cudart {

using Task = std::function<void()>;

// Tasks have positions 1, 2, 3 ... in the order of enqueue(); they run one at a time, in that
// order. Thread-safe. A task must not throw. The worker starts with the first task, sleeps while
// there is none, and keeps the queue alive until it is closed and empty. Workers are detached, so
// that the process may exit while they run or sleep.
class Queue : public std::enable_shared_from_this<Queue> {
 public:
  // Returns the task's position. Throws where memory is short or the worker cannot be started; then
  // nothing was enqueued.
  uint64_t enqueue(Task task);

  // The position of the newest task; 0: there never was one.
  uint64_t tail() const { return enqueued_.load(std::memory_order_acquire); }

  // Whether the task at `position` and all before it have run; what they wrote is then visible.
  bool done(uint64_t position) const {
    return completed_.load(std::memory_order_acquire) >= position;
  }

  // Sleeps until done(position).
  void wait(uint64_t position);

  // The worker ends once it has run what is enqueued. Nothing may be enqueued after it.
  void close();

  // Whether it is closed and has run everything; what its tasks wrote is then visible.
  bool over() const { return closed_.load(std::memory_order_acquire) && done(tail()); }

 private:
  void startWorker();
  void work();
  void complete();

  std::mutex mutex_;
  std::condition_variable arrived_;  // a task, or close()
  std::condition_variable progress_;
  std::deque<Task> tasks_;
  std::atomic<uint64_t> enqueued_{0};   // written under mutex_
  std::atomic<uint64_t> completed_{0};  // written under mutex_
  std::atomic<bool> closed_{false};     // written under mutex_
  bool started_ = false;
};

// A point in a queue: reached when every task up to it has run.
struct Ticket {
  std::shared_ptr<Queue> queue;
  uint64_t position = 0;

  bool done() const { return queue->done(position); }
  void wait() const { queue->wait(position); }
};

}  // namespace cinch::cudart
