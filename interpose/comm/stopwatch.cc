#include "interpose/comm/stopwatch.h"

#include <chrono>

namespace cinch {

uint64_t Stopwatch::steadyNow() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

Result<void> Stopwatch::allocate(const DeviceTable& device) {
  for (Lap& lap : laps_) {
    for (Event* event : {&lap.start, &lap.stop}) {
      auto made = Event::createTimed(device);
      CINCH_TRY(made);
      *event = std::move(made.value());
    }
  }
  return {};
}

void Stopwatch::start(uint64_t turn, void* stream) {
  Lap& lap = lapOf(turn);
  if (turn > 0 && (isIn(turn - 1, Phase::started) || isIn(turn - 1, Phase::untimed)))
    return startUntimed(turn);
  lap.state.store(stateOf(turn, Phase::none));
  lap.hostTime.store(now_());
  if (lap.start && lap.stop && lap.start.record(stream).ok())
    lap.state.store(stateOf(turn, Phase::started));
}

void Stopwatch::startUntimed(uint64_t turn) {
  if (turn > 0 && isIn(turn - 1, Phase::started)) giveUp(turn - 1);
  lapOf(turn).state.store(stateOf(turn, Phase::untimed));
}

void Stopwatch::stop(uint64_t turn, void* stream) {
  Lap& lap = lapOf(turn);
  if (!isIn(turn, Phase::started)) return giveUp(turn);
  const bool isRecorded = lap.stop.record(stream).ok();
  lap.hostTime.store(now_() - lap.hostTime.load());
  lap.state.store(stateOf(turn, isRecorded ? Phase::stopped : Phase::none));
}

void Stopwatch::giveUp(uint64_t turn) {
  if (isIn(turn, Phase::started) || isIn(turn, Phase::untimed))
    lapOf(turn).state.store(stateOf(turn, Phase::none));
}

bool Stopwatch::isRunning(uint64_t turn) const {
  return isIn(turn, Phase::started) || (isIn(turn, Phase::stopped) && !lapOf(turn).stop.done());
}

std::optional<uint64_t> Stopwatch::time(uint64_t turn) const {
  if (!isIn(turn, Phase::stopped)) return std::nullopt;
  const Lap& lap = lapOf(turn);
  const std::optional<uint64_t> onDevice = lap.stop.nanosecondsSince(lap.start);
  const uint64_t onHost = lap.hostTime.load();
  // The lap may have become another turn's meanwhile.
  if (!onDevice || !isIn(turn, Phase::stopped)) return std::nullopt;
  return *onDevice + onHost;
}

}  // namespace cinch
