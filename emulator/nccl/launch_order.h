// The order of a communicator's eager and captured launches: that in which the program makes them,
// launches of graphs included.
//
// Eager launches are in order by themselves, since the progress thread takes plans as they were
// submitted. A graph submits its plans only when it runs. So each launch marks an event, and from
// the first capture on waits for it too; in a graph, with external nodes, which act when the graph
// is launched.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>

namespace cinch::emulator {

class LaunchOrder {
 public:
  LaunchOrder() = default;
  LaunchOrder(const LaunchOrder&) = delete;
  LaunchOrder& operator=(const LaunchOrder&) = delete;
  ~LaunchOrder() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }

  cudaError_t prepare() { return cudaEventCreateWithFlags(&event_, cudaEventDisableTiming); }

  // True from the first captured launch on: the streams keep the plans in order.
  bool isKeptByStreams() const { return hasCaptured_.load(); }

  // Later work of `stream` comes after the last launch.
  cudaError_t wait(cudaStream_t stream, bool captured) {
    if (captured) hasCaptured_.store(true);
    if (!isKeptByStreams()) return cudaSuccess;
    return cudaStreamWaitEvent(stream, event_,
                               captured ? cudaEventWaitExternal : cudaEventWaitDefault);
  }

  // The work of `stream` up to here is the last launch.
  cudaError_t mark(cudaStream_t stream, bool captured) {
    return cudaEventRecordWithFlags(event_, stream,
                                    captured ? cudaEventRecordExternal : cudaEventRecordDefault);
  }

 private:
  cudaEvent_t event_ = nullptr;
  std::atomic<bool> hasCaptured_{false};
};

}  // namespace cinch::emulator
