// Ends waits from another thread, once and for all.
#pragma once

#include <atomic>

#include "emulator/nccl/wakeup.h"

namespace cinch::emulator {

class Cancellation {
 public:
  void cancel() {
    cancelled_.store(true);
    wakeup_.notify();
  }
  bool isCancelled() const { return cancelled_.load(); }
  // To be polled for POLLIN: ready from cancel() on.
  int descriptor() const { return wakeup_.descriptor(); }

 private:
  std::atomic<bool> cancelled_{false};
  Wakeup wakeup_;  // never drained
};

}  // namespace cinch::emulator
