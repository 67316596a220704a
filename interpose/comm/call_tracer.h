// Times the stages of sampled calls of a communicator with events on their streams, for
// CINCH_TRACE.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <vector>

#include "common/trace_format.h"
#include "interpose/comm/buffer.h"
#include "interpose/comm/slot.h"

namespace cinch {

enum class TracedStage : uint8_t { call, encode, exchange, reduce, gather, decode };

// A call that is sampled. One thread begins and ends its stages; where an event cannot be recorded
// the stage is left out.
class TracedCall {
 public:
  // Around what is enqueued on `stream` next for a chunk; the call itself has one. `isAside`: the
  // stream is not the caller's.
  void begin(TracedStage stage, uint32_t chunk, void* stream, bool isAside = false);
  void end(TracedStage stage, uint32_t chunk, void* stream);

 private:
  friend class CallTracer;

  struct Lap {
    Event begin, end;
    bool hasBegun = false, hasEnded = false, isAside = false;
  };
  enum class Phase : uint8_t { free, recording, pending };

  Lap& lapOf(TracedStage stage, uint32_t chunk) {
    return stage == TracedStage::call
               ? laps_[0]
               : laps_[1 + (static_cast<size_t>(stage) - 1) * kMaxChunks + chunk];
  }

  std::array<Lap, 1 + 5 * kMaxChunks> laps_;
  std::atomic<Phase> phase_{Phase::free};
  const Slot* slot_ = nullptr;
  uint64_t number_ = 0;                 // of the communicator's compressed calls
  uint64_t wireBytes_ = 0;              // that this rank sends
  double hostBegin_ = 0, hostEnd_ = 0;  // microseconds since 1970
  // Its own, since the calls of a group overlap; from the first use on.
  int hostTrack_ = -1, streamTrack_ = -1, asideTrack_ = -1;
};

class CallTracer {
 public:
  // `name` of the communicator. Every `every`th call is sampled, the first one among them.
  CallTracer(std::string name, uint64_t every) : name_(std::move(name)), every_(every) {}

  // On the current device, once; may take some milliseconds. The capture mode must be relaxed.
  Result<void> allocate(const DeviceTable& device);
  explicit operator bool() const { return static_cast<bool>(anchor_); }

  // The next compressed call begins. Null where it is not sampled, or where all those that may be
  // sampled at a time are still on their way. Allocates nothing and does not wait.
  TracedCall* begin(const Slot& slot);
  // All is enqueued: collect() will find out how long it took.
  void end(TracedCall& call, const CollectivePlan& followed);
  // It failed.
  void drop(TracedCall& call);

  // Of a call that has ended: false while it is still on its way. One thread, any; the device is
  // current and the capture mode relaxed. Calls are collected in their order.
  bool collect(TracedCall& call);

 private:
  static constexpr size_t kAtATime = 4;

  bool isNext(const TracedCall& call) const;
  std::vector<TraceSpan> spansOf(TracedCall& call, double start);
  int trackOf(int& track, const TracedCall& call, const char* what);
  void keepNear(TracedCall& call, uint64_t sinceAnchor);
  void release(TracedCall& call);

  const std::string name_;
  const uint64_t every_;
  std::array<TracedCall, kAtATime> calls_;
  uint64_t nCalls_ = 0;
  // An event, and when it took place on the host's clock: what ties the device's time to it.
  Event anchor_;
  double anchorTime_ = 0;  // microseconds since 1970
};

}  // namespace cinch
