// Ends the process where a call that cannot be interrupted does not return in time: what PyTorch's
// watchdog does to a job whose peers are gone.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace lm {

class Deadline {
 public:
  // Unless this object is destroyed within `seconds`, writes that `what` did not end in time and
  // exits with status 1.
  Deadline(std::string what, int seconds);
  ~Deadline();

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace lm
