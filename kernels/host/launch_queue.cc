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

}  // namespace

LaunchQueue::LaunchQueue(const RuntimeSymbols& runtime, const HostCodec& codec)
    : runtime_(runtime), codec_(codec) {
  for (size_t i = 0; i < kFirstRecords; ++i) {
    records_.push_back(std::make_unique<Record>(Record{this, {}}));
    records_.back()->launches.reserve(1);
    free_.push_back(records_.back().get());
  }
}

int LaunchQueue::loadKernels() const {
  for (const char* const kernel :
       {&kKernel<EncodeLaunch>, &kKernel<ReduceLaunch>, &kKernel<DecodeLaunch>,
        &kKernel<ProbeLaunch>, &kKernel<TallyLaunch>, &kKernel<SumLaunch>})
    if (const int error = runtime_.cinchEmulatorLoadKernel(kernel)) return error;
  return 0;
}

int LaunchQueue::findGraph(void* stream, void** graph) const {
  int status = 0;
  const int error =
      runtime_.cudaStreamGetCaptureInfo(stream, &status, nullptr, graph, nullptr, nullptr, nullptr);
  if (error != 0 || status != kCaptureActive) *graph = nullptr;
  return error;
}

int LaunchQueue::enqueueOnce(Record* record, void* stream) {
  const int error = runtime_.cudaLaunchHostFunc(stream, runOnce, record);
  if (error != 0) giveBack(record);
  return error;
}

int LaunchQueue::addToGraph(void* graph, Record* owned, void* stream) {
  std::unique_ptr<Record> record(owned);
  const auto destroy = [](void* each) { delete static_cast<Record*>(each); };
  void* object = nullptr;
  if (const int error =
          runtime_.cudaUserObjectCreate(&object, record.get(), destroy, 1, kNoDestructorSync))
    return error;
  (void)record.release();  // the user object's now
  if (const int error = runtime_.cudaGraphRetainUserObject(graph, object, 1, kMoveReference)) {
    runtime_.cudaUserObjectRelease(object, 1);
    return error;
  }
  return runtime_.cudaLaunchHostFunc(stream, runAgain, owned);
}

void LaunchQueue::run(const Record& record) {
  for (const AnyLaunch& launch : record.launches)
    std::visit(RunLaunch{record.queue->codec_}, launch);
}

void LaunchQueue::runOnce(void* record) {
  auto* self = static_cast<Record*>(record);
  run(*self);
  self->queue->giveBack(self);
}

void LaunchQueue::runAgain(void* record) {
  run(*static_cast<const Record*>(record));
}

LaunchQueue::Record* LaunchQueue::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    records_.push_back(std::make_unique<Record>(Record{this, {}}));
    free_.reserve(records_.size());
    free_.push_back(records_.back().get());
  }
  Record* record = free_.back();
  free_.pop_back();
  return record;
}

void LaunchQueue::giveBack(Record* record) {
  const std::lock_guard lock(mutex_);
  free_.push_back(record);
}

}  // namespace cinch::host
