#include "emulator/cudart/queue.h"

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace cinch::cudart {
namespace {

// Blocks all signals while it lives: a thread started meanwhile never runs the program's handlers.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

uint64_t Queue::enqueue(Task task) {
  std::unique_lock lock(mutex_);
  if (!started_) startWorker();
  tasks_.push_back(std::move(task));
  const uint64_t position = enqueued_.load(std::memory_order_relaxed) + 1;
  enqueued_.store(position, std::memory_order_release);
  lock.unlock();  // so that the worker does not wake up only to wait for it
  arrived_.notify_one();
  return position;
}

void Queue::wait(uint64_t position) {
  if (done(position)) return;
  std::unique_lock lock(mutex_);
  progress_.wait(lock, [&] { return done(position); });
}

void Queue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  arrived_.notify_one();
}

void Queue::startWorker() {
  const SignalsBlocked blocked;
  std::thread worker([self = shared_from_this()] { self->work(); });
  pthread_setname_np(worker.native_handle(), "cinch-stream");
  worker.detach();
  started_ = true;
}

void Queue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    arrived_.wait(lock, [&] { return closed_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // what it holds is released before anyone is told that it ran
    lock.lock();
    complete();
  }
}

void Queue::complete() {
  completed_.store(completed_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  progress_.notify_all();
}

}  // namespace cinch::cudart
