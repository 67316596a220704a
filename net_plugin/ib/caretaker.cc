#include "net_plugin/ib/caretaker.h"

#include <pthread.h>

#include <chrono>
#include <system_error>
#include <thread>

#include "common/signals_blocked.h"

namespace cinch::net::ib {
namespace {

// A peer that waits for a word has lost a lane, which took longer than this.
constexpr auto kVisitEvery = std::chrono::milliseconds(50);

}  // namespace

Caretaker::Duty::Duty(Caretaker& caretaker, std::function<void()> visit)
    : caretaker_(caretaker), visit_(std::move(visit)) {
  const std::lock_guard lock(caretaker_.mutex_);
  place_ = caretaker_.duties_.insert(caretaker_.duties_.end(), this);
  caretaker_.hasDuties_.notify_one();
}

Caretaker::Duty::~Duty() {
  const std::lock_guard lock(caretaker_.mutex_);
  caretaker_.duties_.erase(place_);
}

void Caretaker::visitAll() {
  const std::lock_guard lock(mutex_);
  for (const Duty* duty : duties_) duty->visit_();
}

Result<void> Caretaker::startThread() {
  const SignalsBlocked blocked;
  try {
    std::thread([this] { run(); }).detach();
    return {};
  } catch (const std::system_error& error) {
    return errorf(Status::systemError, "the system gives the net plugin no thread: %s",
                  error.what());
  }
}

void Caretaker::run() {
  pthread_setname_np(pthread_self(), "cinch-verbs");
  while (true) {
    {
      std::unique_lock lock(mutex_);
      hasDuties_.wait(lock, [this] { return !duties_.empty(); });
    }
    std::this_thread::sleep_for(kVisitEvery);
    visitAll();
  }
}

}  // namespace cinch::net::ib
