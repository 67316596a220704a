// How long calls take on the device, from events around them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "interpose/comm/buffer.h"

namespace cinch {

// Of the last kLaps turns of one slot. One thread starts and stops laps; any other may read them.
class Stopwatch {
 public:
  static constexpr size_t kLaps = 32;

  // Not on the call path.
  Result<void> allocate(const DeviceTable& device);

  // Around what is enqueued on `stream` for `turn`; the slot's device is current. A lap that another
  // one begins in is given up with it, since they would be timed together: so each turn is begun,
  // also one that is not to be timed.
  void start(uint64_t turn, void* stream);
  void startUntimed(uint64_t turn);
  void stop(uint64_t turn, void* stream);
  void giveUp(uint64_t turn);

  // Whether the turn's time will be known, but is not yet.
  bool isRunning(uint64_t turn) const;
  // In ns; none where it was not taken.
  std::optional<uint64_t> time(uint64_t turn) const;

 private:
  // untimed: on its way
  enum class Phase : uint8_t { none, started, stopped, untimed };
  struct Lap {
    Event start, stop;
    std::atomic<uint64_t> state{0};  // turn and phase
  };
  static uint64_t stateOf(uint64_t turn, Phase phase) {
    return turn << 2 | static_cast<uint64_t>(phase);
  }
  Lap& lapOf(uint64_t turn) { return laps_[turn % kLaps]; }
  const Lap& lapOf(uint64_t turn) const { return laps_[turn % kLaps]; }
  bool isIn(uint64_t turn, Phase phase) const {
    return lapOf(turn).state.load() == stateOf(turn, phase);
  }

  std::array<Lap, kLaps> laps_;
};

}  // namespace cinch
