// Enqueues codec launches on emulated streams, as host functions.
#pragma once

#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "kernels/host/host_codec.h"
#include "kernels/host/runtime_symbols.h"

namespace cinch::host {

using AnyLaunch =
    std::variant<EncodeLaunch, ReduceLaunch, DecodeLaunch, ProbeLaunch, TallyLaunch, SumLaunch>;

// Copies launches into records that return to a pool once they have run: after the first calls,
// nothing is allocated. In a capture, the record belongs to the graph, which may run it any number
// of times. Safe from any thread; must outlive the streams that it is used with.
class LaunchQueue {
 public:
  LaunchQueue(const RuntimeSymbols& runtime, const HostCodec& codec);

  // Returns a cudaError_t.
  int enqueue(const AnyLaunch& launch, void* stream);

 private:
  struct Record {
    LaunchQueue* queue;
    AnyLaunch launch;
  };

  int enqueueOnce(const AnyLaunch& launch, void* stream);
  int addToGraph(void* graph, const AnyLaunch& launch, void* stream);

  void run(const AnyLaunch& launch) const;
  static void runOnce(void* record);   // and gives it back
  static void runAgain(void* record);  // leaves it as it is
  Record* take(const AnyLaunch& launch);
  void giveBack(Record* record);

  const RuntimeSymbols& runtime_;
  const HostCodec& codec_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Record>> records_;  // all there are
  std::vector<Record*> free_;
};

}  // namespace cinch::host
