// Enqueues codec launches on emulated streams, as host functions.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <variant>
#include <vector>

#include "kernels/host/host_codec.h"
#include "kernels/host/runtime_symbols.h"

namespace cinch::host {

using AnyLaunch =
    std::variant<EncodeLaunch, ReduceLaunch, DecodeLaunch, ProbeLaunch, TallyLaunch, SumLaunch>;

// What stands for the kernel of a kind of launch where the emulator asks whether it is loaded.
template <class Launch>
inline constexpr char kKernel = 0;

// Copies launches into records that return to a pool once they have run: after the first calls,
// nothing is allocated. In a capture, the record belongs to the graph, which may run it any number
// of times. Safe from any thread; must outlive the streams that it is used with.
class LaunchQueue {
 public:
  LaunchQueue(const RuntimeSymbols& runtime, const HostCodec& codec);

  // All of them for the current device, as kernels/device_table.h says. Returns a cudaError_t.
  int loadKernels() const;

  // Launches of one kind, as one host function. Returns a cudaError_t.
  template <class Launch>
  int enqueue(std::span<const Launch> launches, void* stream) {
    if (const int error = runtime_.cinchEmulatorLoadKernel(&kKernel<Launch>)) return error;
    void* graph = nullptr;
    if (const int error = findGraph(stream, &graph)) return error;
    Record* const record = graph ? new Record{this, {}} : take();
    record->launches.assign(launches.begin(), launches.end());
    return graph ? addToGraph(graph, record, stream) : enqueueOnce(record, stream);
  }

 private:
  struct Record {
    LaunchQueue* queue;
    std::vector<AnyLaunch> launches;
  };

  // The graph that the stream is being captured into; null: none.
  int findGraph(void* stream, void** graph) const;
  int enqueueOnce(Record* record, void* stream);
  int addToGraph(void* graph, Record* owned, void* stream);

  static void run(const Record& record);
  static void runOnce(void* record);   // and gives it back
  static void runAgain(void* record);  // leaves it as it is
  Record* take();
  void giveBack(Record* record);

  const RuntimeSymbols& runtime_;
  const HostCodec& codec_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Record>> records_;  // all there are
  std::vector<Record*> free_;
};

}  // namespace cinch::host
