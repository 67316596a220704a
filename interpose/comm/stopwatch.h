// How long calls take, from events around them on the device and the host's clock beside it.
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
  static constexpr size_t kLaps = 136;
  using HostClock = uint64_t (*)();  // ns, of no day

  static uint64_t steadyNow();

  explicit Stopwatch(HostClock now = steadyNow) : now_(now) {}

  // Not on the call path.
  Result<void> allocate(const DeviceTable& device);

  // Around what is enqueued on `stream` for `turn`; the slot's device is current. A lap that
  // another one begins in is given up with it, since they would be timed together: so each turn is
  // begun, also one that is not to be timed.
  void start(uint64_t turn, void* stream);
  void startUntimed(uint64_t turn);
  void stop(uint64_t turn, void* stream);
  void giveUp(uint64_t turn);

  // Whether the turn's time will be known, but is not yet.
  bool isRunning(uint64_t turn) const;
  // In ns; none where it was not taken. What the device takes, and what the host takes to enqueue
  // it: a program that waits for each of its calls pays for both.
  std::optional<uint64_t> time(uint64_t turn) const;

 private:
  // untimed: on its way
  enum class Phase : uint8_t { none, started, stopped, untimed };
  struct Lap {
    Event start, stop;
    std::atomic<uint64_t> hostTime{0};  // ns; before the stop, when the lap was begun
    std::atomic<uint64_t> state{0};     // turn and phase
  };
  static uint64_t stateOf(uint64_t turn, Phase phase) {
    return turn << 2 | static_cast<uint64_t>(phase);
  }
  Lap& lapOf(uint64_t turn) { return laps_[turn % kLaps]; }
  const Lap& lapOf(uint64_t turn) const { return laps_[turn % kLaps]; }
  bool isIn(uint64_t turn, Phase phase) const {
    return lapOf(turn).state.load() == stateOf(turn, phase);
  }

  HostClock now_;
  std::array<Lap, kLaps> laps_;
};

}  // namespace cinch
