#include "interpose/comm/step_timer.h"

namespace cinch {

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
  if (mark.event && mark.event.record(stream).ok()) mark.number.store(number);
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
  const auto time = to.event.nanosecondsSince(from.event);
  // They may have become other marks meanwhile, and are so from before they are recorded again.
  return areThose() ? time : std::nullopt;
}

}  // namespace cinch
