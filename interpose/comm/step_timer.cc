#include "interpose/comm/step_timer.h"

#include <chrono>

namespace cinch {

uint64_t StepTimer::steadyNow() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

Result<void> StepTimer::allocate(const DeviceTable& device) {
  for (Mark& mark : marks_) {
    auto made = Event::createTimed(device);
    CINCH_TRY(made);
    mark.event = std::move(made.value());
  }
  return {};
}

void StepTimer::mark(uint64_t number, void* stream) {
  Mark& mark = marks_[number % kMarks];
  mark.number.store(UINT64_MAX);
  mark.hostTime.store(now_());
  if (mark.event && !mark.event.record(stream).ok()) return;
  mark.number.store(number);
}

bool StepTimer::isPending(uint64_t number) const {
  const Mark& mark = markOf(number);
  return mark.number.load() == number && !mark.event.done();
}

std::optional<uint64_t> StepTimer::between(uint64_t first, uint64_t second) const {
  const Mark& from = markOf(first);
  const Mark& to = markOf(second);
  const auto areThose = [&] { return from.number.load() == first && to.number.load() == second; };
  if (!areThose()) return std::nullopt;
  const bool isTimed = from.event && to.event;
  const auto time = isTimed ? to.event.nanosecondsSince(from.event)
                            : std::optional(to.hostTime.load() - from.hostTime.load());
  // They may have become other marks meanwhile, and are so from before they are recorded again.
  return areThose() ? time : std::nullopt;
}

}  // namespace cinch
