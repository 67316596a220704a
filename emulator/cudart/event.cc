#include "emulator/cudart/event.h"

#include <chrono>
#include <utility>

namespace cinch::cudart {
namespace {

int64_t monotonicNs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

void Event::record(Stream& stream) {
  setLatest(recordingOn(stream));
}

void Event::record(std::shared_ptr<const CapturedPoint> point) {
  auto recording = std::make_shared<Recording>();
  recording->captured = std::move(point);
  setLatest(std::move(recording));
}

void Event::setLatest(std::shared_ptr<const Recording> recording) {
  std::lock_guard lock(mutex_);
  latest_.swap(recording);
}

std::shared_ptr<const Recording> Event::latest() const {
  std::lock_guard lock(mutex_);
  return latest_;
}

// Only a time needs a task; without one, a place in the queue is enough.
std::shared_ptr<const Recording> Event::recordingOn(Stream& stream) const {
  auto recording = std::make_shared<Recording>();
  recording->ticket =
      timing_ ? stream.submit([recording] { recording->timeNs = monotonicNs(); }) : stream.mark();
  return recording;
}

HandleTable<cudaEvent_t, Event>& events() {
  static auto* const table = new HandleTable<cudaEvent_t, Event>;  // outlives the process's exit
  return *table;
}

}  // namespace cinch::cudart
