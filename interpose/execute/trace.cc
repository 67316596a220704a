#include "interpose/execute/trace.h"

#include <chrono>

#include "common/log.h"
#include "interpose/comm/background.h"
#include "interpose/comm/trace_log.h"

namespace cinch {
namespace {

using Clock = std::chrono::steady_clock;

// After which a call that does not end is given up.
constexpr std::chrono::seconds kTracePatience{60};

// Until the call has ended on the device. Keeps the communicator.
bool collectLater(const std::shared_ptr<CommState>& comm, TracedCall& call) {
  const auto deadline = Clock::now() + kTracePatience;
  return runInBackground([comm, &call, deadline] {
    useDevice(*comm->resources.device, comm->resources.cudaDevice);
    const RelaxedCapture relaxed(*comm->resources.device);
    if (comm->tracer->collect(call)) return true;
    if (Clock::now() < deadline && !comm->hasFailed()) return false;
    comm->tracer->drop(call);
    return true;
  });
}

}  // namespace

void allocateTracer(CommState& comm) {
  if (!comm.tracer || *comm.tracer) return;
  const Result<void> done = comm.tracer->allocate(*comm.resources.device);
  if (done) return;
  CINCH_WARN("STATS", "%s is not traced: %s", comm.name.c_str(), done.error().message.c_str());
  comm.tracer.reset();
}

void beginTrace(BatchItem& item) {
  CallTracer* tracer = item.comm->tracer.get();
  if (tracer == nullptr || !*tracer || item.connectOnly || item.captureId != 0) return;
  item.traced = tracer->begin(*item.slot);
  if (item.traced != nullptr) item.traced->begin(TracedStage::call, 0, item.call.stream);
}

void endTrace(BatchItem& item) {
  TracedCall* const traced = std::exchange(item.traced, nullptr);
  if (traced == nullptr) return;
  traced->end(TracedStage::call, 0, item.call.stream);
  item.comm->tracer->end(*traced, item.plan);
  if (!collectLater(item.comm, *traced)) item.comm->tracer->drop(*traced);
}

void dropTrace(const BatchItem& item) {
  if (item.traced != nullptr) item.comm->tracer->drop(*item.traced);
}

void beginMessages(const BatchItem& item, TracedStage stage, uint32_t chunk) {
  if (item.traced == nullptr) return;
  const CurrentDevice current(*item.comm->resources.device, item.comm->resources.cudaDevice);
  item.traced->begin(stage, chunk, item.call.stream);
}

void endMessages(const BatchItem& item, TracedStage stage, uint32_t chunk) {
  if (item.traced == nullptr) return;
  const CurrentDevice current(*item.comm->resources.device, item.comm->resources.cudaDevice);
  item.traced->end(stage, chunk, item.call.stream);
}

CodecTrace::CodecTrace(const Neighbours& items, TracedStage stage, uint32_t chunk, void* stream)
    : items_(items), stage_(stage), chunk_(chunk), stream_(stream) {
  for (const BatchItem* item : items_)
    if (item->traced != nullptr)
      item->traced->begin(stage, chunk, stream, stream != item->call.stream);
}

CodecTrace::~CodecTrace() {
  for (const BatchItem* item : items_)
    if (item->traced != nullptr) item->traced->end(stage_, chunk_, stream_);
}

}  // namespace cinch
