// Events: a point in a stream that others can wait for.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "emulator/cudart/handle_table.h"
#include "emulator/cudart/stream.h"

namespace cinch::cudart {

struct CapturedPoint;  // capture.h

// What one call of cudaEventRecord noted. `timeNs` may be read once `ticket` is reached.
struct Recording {
  Ticket ticket;
  int64_t timeNs = 0;  // monotonic clock; only for events with timing
  // Recorded in a capture: nothing runs that could be waited for, and the rest means nothing.
  std::shared_ptr<const CapturedPoint> captured;
};

// Thread-safe. Waits refer to the recording that was current when they were asked for, so that
// recording again or destroying the event does not move them.
class Event {
 public:
  explicit Event(bool timing) : timing_(timing) {}

  bool hasTiming() const { return timing_; }
  void record(Stream& stream);
  void record(std::shared_ptr<const CapturedPoint> point);
  // Null where the event was never recorded, which counts as done.
  std::shared_ptr<const Recording> latest() const;

 private:
  std::shared_ptr<const Recording> recordingOn(Stream& stream) const;
  void setLatest(std::shared_ptr<const Recording> recording);

  const bool timing_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Recording> latest_;
};

// The live events.
HandleTable<cudaEvent_t, Event>& events();

}  // namespace cinch::cudart
