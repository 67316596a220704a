#include "kernels/host/launch_queue.h"

namespace cinch::host {
namespace {

// Enough for the calls in flight of a usual job; more are made when these run out.
constexpr size_t kFirstRecords = 64;

struct RunLaunch {
  const HostCodec& codec;
  void operator()(const EncodeLaunch& launch) const { codec.encodeShards(launch); }
  void operator()(const ReduceLaunch& launch) const { codec.reduceShard(launch); }
  void operator()(const DecodeLaunch& launch) const { codec.decodeShards(launch); }
};

}  // namespace

LaunchQueue::LaunchQueue(const RuntimeSymbols& runtime, const HostCodec& codec)
    : runtime_(runtime), codec_(codec) {
  for (size_t i = 0; i < kFirstRecords; ++i) {
    records_.push_back(std::make_unique<Record>());
    free_.push_back(records_.back().get());
  }
}

int LaunchQueue::enqueue(const AnyLaunch& launch, void* stream) {
  Record* record = take(launch);
  const int error = runtime_.cudaLaunchHostFunc(stream, runRecord, record);
  if (error != 0) giveBack(record);
  return error;
}

void LaunchQueue::runRecord(void* record) {
  auto* self = static_cast<Record*>(record);
  std::visit(RunLaunch{self->queue->codec_}, self->launch);
  self->queue->giveBack(self);
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
