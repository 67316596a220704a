// Wakes a thread that sleeps in poll().
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "emulator/nccl/address.h"

namespace cinch::emulator {

class Wakeup {
 public:
  // To be polled for POLLIN.
  int descriptor() const { return event_.get(); }

  // From any thread. A full counter is as good as a wake-up, so that failure does not matter.
  void notify() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof one);
  }

  void drain() {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(event_.get(), &count, sizeof count);
  }

 private:
  Descriptor event_{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
};

}  // namespace cinch::emulator
