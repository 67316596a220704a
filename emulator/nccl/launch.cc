#include "emulator/nccl/launch.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "emulator/nccl/debug.h"
#include "emulator/nccl/plan.h"

namespace cinch::emulator {
namespace {

// Short beside the time in which the service thread connects.
constexpr std::chrono::microseconds kConnectPollTime{100};

// Where a stream stops: for the plans of these batches.
struct Stop {
  cudaStream_t stream;
  std::vector<size_t> batches;
};

std::vector<Stop> stopsOf(const std::vector<Batch>& batches) {
  std::vector<Stop> stops;
  for (size_t i = 0; i < batches.size(); ++i) {
    for (const cudaStream_t stream : batches[i].streams) {
      auto stop = std::find_if(stops.begin(), stops.end(),
                               [&](const Stop& it) { return it.stream == stream; });
      if (stop == stops.end()) stop = stops.insert(stop, Stop{stream, {}});
      stop->batches.push_back(i);
    }
  }
  return stops;
}

Result<void> cudaResult(cudaError_t error, cudaStream_t stream) {
  if (error == cudaSuccess) return {};
  return errorf(Status::cudaError, "cannot enqueue a collective on stream %p: %s",
                static_cast<void*>(stream), cudaGetErrorString(error));
}

struct CaptureState {
  bool active = false;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
};

Result<CaptureState> captureOf(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CaptureState state;
  CINCH_TRY(cudaResult(cudaStreamGetCaptureInfo(stream, &status, &state.id, &state.graph), stream));
  if (status == cudaStreamCaptureStatusInvalidated) {
    return cudaResult(cudaErrorStreamCaptureInvalidated, stream).error();
  }
  state.active = status == cudaStreamCaptureStatusActive;
  return state;
}

// The capture that all streams are in, or none.
Result<CaptureState> commonCapture(const std::vector<Batch>& batches) {
  const Result<CaptureState> first = captureOf(batches.front().streams.front());
  if (!first) return first;
  for (const Batch& batch : batches) {
    for (const cudaStream_t stream : batch.streams) {
      const Result<CaptureState> other = captureOf(stream);
      if (!other) return other;
      const bool same = other.value().active == first.value().active &&
                        (!first.value().active || other.value().id == first.value().id);
      if (!same) {
        return errorf(Status::invalidUsage,
                      "the streams of one group must all be in the same capture, or none of them");
      }
    }
  }
  return first;
}

std::shared_ptr<Plan> submitPlan(Communicator& communicator, std::vector<Operation> operations,
                                 size_t nStreams, Result<void>* result) {
  ProgressThread* const progress = communicator.progress();
  const auto plan =
      std::make_shared<Plan>(std::move(operations), static_cast<int>(nStreams),
                             communicator.order().isKeptByStreams(), progress->wakeup());
  const Result<void> submitted = progress->submit(plan);
  if (!submitted) *result = submitted;
  return plan;
}

// The plans of one execution of a group, by batch; null: its communicator is gone.
using Plans = std::vector<std::shared_ptr<Plan>>;

// A stream has come to its stop: returns when it may go on.
void pass(const Stop& stop, const Plans& plans) {
  for (const size_t batch : stop.batches) {
    if (plans[batch] != nullptr) plans[batch]->arrive();
  }
  for (const size_t batch : stop.batches) {
    if (plans[batch] != nullptr) plans[batch]->wait();
  }
}

// A host function's argument, for one run.
struct EagerStop {
  Stop stop;
  std::shared_ptr<const Plans> plans;
};

void CUDART_CB runEager(void* argument) {
  const std::unique_ptr<EagerStop> stop(static_cast<EagerStop*>(argument));
  pass(stop->stop, *stop->plans);
}

// A group in a graph. Runs follow one another, since each waits for the event that marks the end of
// the one before, and within one run every stop is passed once.
class CapturedGroup {
 public:
  struct Entry {
    CapturedGroup* group;
    Stop stop;
  };

  CapturedGroup(const std::vector<Batch>& batches, std::vector<Stop> stops) {
    for (const Batch& batch : batches) {
      templates_.push_back({batch.communicator, batch.operations, batch.streams.size()});
    }
    for (Stop& stop : stops) entries_.push_back({this, std::move(stop)});
  }

  std::vector<Entry>& entries() { return entries_; }

  static void CUDART_CB run(void* entry) {
    const auto* self = static_cast<const Entry*>(entry);
    pass(self->stop, *self->group->enter());
  }
  static void CUDART_CB destroy(void* group) { delete static_cast<CapturedGroup*>(group); }

 private:
  // A graph does not keep a communicator alive that the program has destroyed.
  struct Template {
    std::weak_ptr<Communicator> communicator;
    std::vector<Operation> operations;
    size_t nStreams;
  };

  // The plans of the present run: the first stream to come makes them.
  std::shared_ptr<const Plans> enter() {
    std::lock_guard lock(mutex_);
    if (nEntered_ == 0) plans_ = std::make_shared<const Plans>(submitAll());
    nEntered_ = (nEntered_ + 1) % entries_.size();
    return plans_;
  }

  Plans submitAll() const {
    Plans plans;
    for (const Template& it : templates_) {
      const std::shared_ptr<Communicator> communicator = it.communicator.lock();
      Result<void> result;
      plans.push_back(communicator == nullptr
                          ? nullptr
                          : submitPlan(*communicator, it.operations, it.nStreams, &result));
      if (!result) report(result.error());
    }
    return plans;
  }

  std::vector<Template> templates_;
  std::vector<Entry> entries_;
  std::mutex mutex_;
  size_t nEntered_ = 0;
  std::shared_ptr<const Plans> plans_;
};

Result<void> waitForEarlier(const Stop& stop, const std::vector<Batch>& batches, bool captured) {
  for (const size_t batch : stop.batches) {
    const cudaError_t error = batches[batch].communicator->order().wait(stop.stream, captured);
    CINCH_TRY(cudaResult(error, stop.stream));
  }
  return {};
}

Result<void> markAll(const std::vector<Batch>& batches, bool captured) {
  for (const Batch& batch : batches) {
    const cudaStream_t stream = batch.streams.front();
    CINCH_TRY(cudaResult(batch.communicator->order().mark(stream, captured), stream));
  }
  return {};
}

Result<void> enqueueStops(const std::vector<Stop>& stops, const std::vector<Batch>& batches,
                          const std::shared_ptr<const Plans>& plans) {
  for (const Stop& stop : stops) {
    CINCH_TRY(waitForEarlier(stop, batches, false));
    auto owner = std::make_unique<EagerStop>(EagerStop{stop, plans});
    CINCH_TRY(cudaResult(cudaLaunchHostFunc(stop.stream, runEager, owner.get()), stop.stream));
    owner.release();
  }
  return markAll(batches, false);
}

Result<void> launchNow(std::vector<Batch> batches) {
  const std::vector<Stop> stops = stopsOf(batches);
  Result<void> result;
  Plans plans;
  for (Batch& batch : batches) {
    plans.push_back(submitPlan(*batch.communicator, std::move(batch.operations),
                               batch.streams.size(), &result));
  }
  const Result<void> enqueued =
      enqueueStops(stops, batches, std::make_shared<const Plans>(std::move(plans)));
  if (enqueued) return result;
  // Some streams may hold plans already: these can neither run nor be taken back.
  for (const Batch& batch : batches) batch.communicator->progress()->fail(enqueued.error());
  return enqueued;
}

Result<void> record(const std::vector<Batch>& batches, cudaGraph_t graph) {
  auto owner = std::make_unique<CapturedGroup>(batches, stopsOf(batches));
  cudaUserObject_t object = nullptr;
  const cudaStream_t first = batches.front().streams.front();
  CINCH_TRY(cudaResult(cudaUserObjectCreate(&object, owner.get(), CapturedGroup::destroy, 1,
                                            cudaUserObjectNoDestructorSync),
                       first));
  CapturedGroup& group = *owner.release();
  CINCH_TRY(
      cudaResult(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove), first));
  for (CapturedGroup::Entry& entry : group.entries()) {
    const cudaStream_t stream = entry.stop.stream;
    CINCH_TRY(waitForEarlier(entry.stop, batches, true));
    CINCH_TRY(cudaResult(cudaLaunchHostFunc(stream, CapturedGroup::run, &entry), stream));
  }
  return markAll(batches, true);
}

// As NCCL does before it launches or records anything: once for each peer and direction. Where one
// communicator of a group ends, none is waited for.
void connectPeers(const std::vector<Batch>& batches) {
  for (const Batch& batch : batches) batch.communicator->beginToConnect(batch.operations);
  const auto isConnecting = [](const Batch& it) {
    return it.communicator->isConnecting(it.operations);
  };
  const auto hasEnded = [](const Batch& it) { return it.communicator->hasEnded(); };
  while (std::ranges::any_of(batches, isConnecting) && std::ranges::none_of(batches, hasEnded))
    std::this_thread::sleep_for(kConnectPollTime);
}

}  // namespace

Result<void> checkCaptures(const std::vector<Batch>& batches) {
  if (batches.empty()) return {};
  const Result<CaptureState> capture = commonCapture(batches);
  return capture ? Result<void>() : capture.error();
}

Result<void> launch(std::vector<Batch> batches) {
  const Result<CaptureState> capture = commonCapture(batches);
  if (!capture) return capture.error();
  connectPeers(batches);
  if (capture.value().active) return record(batches, capture.value().graph);
  return launchNow(std::move(batches));
}

}  // namespace cinch::emulator
