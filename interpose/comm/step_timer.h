// When samples of a communicator's periods began: an event on the device in front of a call.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "interpose/comm/buffer.h"

namespace cinch {

// The last kMarks times of one stream of calls. One thread marks; any may read.
class StepTimer {
 public:
  static constexpr size_t kMarks = 64;

  // Makes the events, without which nothing is timed here: this rank's timings do not count then.
  Result<void> allocate(const DeviceTable& device);

  // Now, on `stream`, whose device is current: mark `number`, which may be made again.
  void mark(uint64_t number, void* stream);

  // Whether the device has yet to come to that mark.
  bool isPending(uint64_t number) const;
  // In ns; none where a mark was not made, or has been made another one since.
  std::optional<uint64_t> between(uint64_t first, uint64_t second) const;

 private:
  struct Mark {
    Event event;
    std::atomic<uint64_t> number{UINT64_MAX};  // while it is that one
  };
  const Mark& markOf(uint64_t number) const { return marks_[number % kMarks]; }

  std::array<Mark, kMarks> marks_;
};

}  // namespace cinch
