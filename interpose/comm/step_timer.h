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
  using HostClock = uint64_t (*)();  // ns, of no day

  static uint64_t steadyNow();

  explicit StepTimer(HostClock now = steadyNow) : now_(now) {}

  // Not on the call path. Without events the host's clock counts alone.
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
    std::atomic<uint64_t> hostTime{0};
    std::atomic<uint64_t> number{UINT64_MAX};  // while it is that one
  };
  const Mark& markOf(uint64_t number) const { return marks_[number % kMarks]; }

  HostClock now_;
  std::array<Mark, kMarks> marks_;
};

}  // namespace cinch
