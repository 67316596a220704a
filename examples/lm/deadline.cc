#include "examples/lm/deadline.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace lm {

Deadline::Deadline(std::string what, int seconds)
    : thread_([this, what = std::move(what), seconds] {
        std::unique_lock lock(mutex_);
        if (ended_.wait_for(lock, std::chrono::seconds(seconds), [this] { return done_; })) return;
        std::fprintf(stderr, "train_lm: %s did not end within %d s: a rank is missing or stuck\n",
                     what.c_str(), seconds);
        std::_Exit(1);
      }) {}

Deadline::~Deadline() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

}  // namespace lm
