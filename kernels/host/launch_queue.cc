#include "kernels/host/launch_queue.h"

namespace cinch::host {
namespace {

// Enough for the calls in flight of a usual job; more are made when these run out.
constexpr size_t kFirstRecords = 64;

constexpr int kCaptureActive = 1;
constexpr unsigned kNoDestructorSync = 1;
constexpr unsigned kMoveReference = 1;

struct RunLaunch {
  const HostCodec& codec;
  void operator()(const EncodeLaunch& launch) const { codec.encodeShards(launch); }
  void operator()(const ReduceLaunch& launch) const { codec.reduceShard(launch); }
  void operator()(const DecodeLaunch& launch) const { codec.decodeShards(launch); }
  void operator()(const ProbeLaunch& launch) const { codec.probeInput(launch); }
  void operator()(const TallyLaunch& launch) const { codec.tallyTiles(launch); }
  void operator()(const SumLaunch& launch) const { codec.sumParts(launch); }
};

// The graph that the stream is being captured into; null: none.
int findGraph(const RuntimeSymbols& runtime, void* stream, void** graph) {
  int status = 0;
  const int error =
      runtime.cudaStreamGetCaptureInfo(stream, &status, nullptr, graph, nullptr, nullptr, nullptr);
  if (error != 0 || status != kCaptureActive) *graph = nullptr;
  return error;
}

}  // namespace

LaunchQueue::LaunchQueue(const RuntimeSymbols& runtime, const HostCodec& codec)
    : runtime_(runtime), codec_(codec) {
  for (size_t i = 0; i < kFirstRecords; ++i) {
    records_.push_back(std::make_unique<Record>());
    free_.push_back(records_.back().get());
  }
}

int LaunchQueue::enqueue(const AnyLaunch& launch, void* stream) {
  void* graph = nullptr;
  if (const int error = findGraph(runtime_, stream, &graph)) return error;
  return graph ? addToGraph(graph, launch, stream) : enqueueOnce(launch, stream);
}

int LaunchQueue::enqueueOnce(const AnyLaunch& launch, void* stream) {
  Record* record = take(launch);
  const int error = runtime_.cudaLaunchHostFunc(stream, runOnce, record);
  if (error != 0) giveBack(record);
  return error;
}

int LaunchQueue::addToGraph(void* graph, const AnyLaunch& launch, void* stream) {
  auto record = std::make_unique<Record>(Record{this, launch});
  const auto destroy = [](void* owned) { delete static_cast<Record*>(owned); };
  void* object = nullptr;
  if (const int error =
          runtime_.cudaUserObjectCreate(&object, record.get(), destroy, 1, kNoDestructorSync))
    return error;
  Record* const owned = record.release();  // by the user object
  if (const int error = runtime_.cudaGraphRetainUserObject(graph, object, 1, kMoveReference)) {
    runtime_.cudaUserObjectRelease(object, 1);
    return error;
  }
  return runtime_.cudaLaunchHostFunc(stream, runAgain, owned);
}

void LaunchQueue::run(const AnyLaunch& launch) const {
  std::visit(RunLaunch{codec_}, launch);
}

void LaunchQueue::runOnce(void* record) {
  auto* self = static_cast<Record*>(record);
  self->queue->run(self->launch);
  self->queue->giveBack(self);
}

void LaunchQueue::runAgain(void* record) {
  const auto* self = static_cast<Record*>(record);
  self->queue->run(self->launch);
}

LaunchQueue::Record* LaunchQueue::take(const AnyLaunch& launch) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    records_.push_back(std::make_unique<Record>());
    free_.reserve(records_.size());
    free_.push_back(records_.back().get());
  }
  Record* record = free_.back();
  free_.pop_back();
  *record = {this, launch};
  return record;
}

void LaunchQueue::giveBack(Record* record) {
  const std::lock_guard lock(mutex_);
  free_.push_back(record);
}

}  // namespace cinch::host
