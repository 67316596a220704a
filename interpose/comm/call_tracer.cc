#include "interpose/comm/call_tracer.h"

#include <algorithm>
#include <thread>

#include "interpose/comm/trace_log.h"

namespace cinch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kStageNames[] = {"call", "encode", "exchange", "reduce", "gather", "decode"};
constexpr std::chrono::milliseconds kAnchorPatience{100};
// Times between events come as float milliseconds, which are finer than a microsecond up to there.
constexpr uint64_t kFarFromAnchor = 10'000'000'000;  // ns

double microsecondsNow() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

Result<Event> makeTimed(const DeviceTable& device) {
  return Event::createTimed(device);
}

// When what is recorded on an idle stream is done, it is now.
Result<double> recordNow(const DeviceTable& device, Event& event) {
  void* stream = nullptr;
  CINCH_TRY_DEVICE(device, device.streamCreate(&stream), "cannot create a stream");
  const Result<void> recorded = event.record(stream);
  const auto deadline = Clock::now() + kAnchorPatience;
  while (recorded.ok() && !event.done() && Clock::now() < deadline) std::this_thread::yield();
  const double now = microsecondsNow();
  device.streamDestroy(stream);
  if (!recorded.ok()) return recorded.error();
  if (!event.done()) return errorf(Status::cudaError, "an idle stream records no event in time");
  return now;
}

}  // namespace

void TracedCall::begin(TracedStage stage, uint32_t chunk, void* stream, bool isAside) {
  Lap& lap = lapOf(stage, chunk);
  lap.hasBegun = lap.begin.record(stream).ok();
  lap.isAside = isAside;
}

void TracedCall::end(TracedStage stage, uint32_t chunk, void* stream) {
  Lap& lap = lapOf(stage, chunk);
  lap.hasEnded = lap.hasBegun && lap.end.record(stream).ok();
}

Result<void> CallTracer::allocate(const DeviceTable& device) {
  for (TracedCall& call : calls_) {
    for (TracedCall::Lap& lap : call.laps_) {
      for (Event* event : {&lap.begin, &lap.end}) {
        auto made = makeTimed(device);
        CINCH_TRY(made);
        *event = std::move(made.value());
      }
    }
  }
  auto anchor = makeTimed(device);
  CINCH_TRY(anchor);
  const Result<double> time = recordNow(device, anchor.value());
  CINCH_TRY(time);
  anchorTime_ = time.value();
  anchor_ = std::move(anchor.value());
  return {};
}

TracedCall* CallTracer::begin(const Slot& slot) {
  const uint64_t number = nCalls_++;
  if (number % every_ != 0) return nullptr;
  for (TracedCall& call : calls_) {
    if (call.phase_.load() != TracedCall::Phase::free) continue;
    call.phase_.store(TracedCall::Phase::recording);
    for (TracedCall::Lap& lap : call.laps_) lap.hasBegun = lap.hasEnded = false;
    call.slot_ = &slot;
    call.number_ = number;
    call.hostBegin_ = microsecondsNow();
    return &call;
  }
  processTrace().countDropped();
  return nullptr;
}

void CallTracer::end(TracedCall& call, const CollectivePlan& followed) {
  call.wireBytes_ = followed.wireBytes();
  call.hostEnd_ = microsecondsNow();
  call.phase_.store(TracedCall::Phase::pending);
}

void CallTracer::drop(TracedCall& call) {
  processTrace().countDropped();
  release(call);
}

bool CallTracer::collect(TracedCall& call) {
  const TracedCall::Lap& whole = call.laps_[0];
  if (!whole.hasEnded) {
    drop(call);
    return true;
  }
  if (!whole.end.done() || !isNext(call)) return false;
  const auto sinceAnchor = whole.begin.nanosecondsSince(anchor_);
  if (!sinceAnchor) {
    drop(call);
    return true;
  }
  processTrace().add(spansOf(call, anchorTime_ + static_cast<double>(*sinceAnchor) / 1e3));
  keepNear(call, *sinceAnchor);
  release(call);
  return true;
}

// The anchor may move with each of them.
bool CallTracer::isNext(const TracedCall& call) const {
  return std::none_of(calls_.begin(), calls_.end(), [&call](const TracedCall& other) {
    return other.phase_.load() == TracedCall::Phase::pending && other.number_ < call.number_;
  });
}

// `start` of the call. Stages are laid out from there, and lie within it in spite of rounding.
std::vector<TraceSpan> CallTracer::spansOf(TracedCall& call, double start) {
  const Event& origin = call.laps_[0].begin;
  const auto since = [&origin](const Event& event) {
    return static_cast<double>(event.nanosecondsSince(origin).value_or(0)) / 1e3;
  };
  const double whole = since(call.laps_[0].end);
  const std::vector<std::pair<std::string, std::string>> facts = {
      {"communicator", name_},
      {"codec", call.slot_->stats->codec},
      {"bytes", std::to_string(call.slot_->plan.inputBytes())},
      {"wire_bytes", std::to_string(call.wireBytes_)},
      {"compressed_call", std::to_string(call.number_)}};
  const int hostTrack = trackOf(call.hostTrack_, call, "host");
  const int streamTrack = trackOf(call.streamTrack_, call, "caller's stream");
  std::vector<TraceSpan> spans = {
      {call.slot_->name, hostTrack, call.hostBegin_, call.hostEnd_ - call.hostBegin_, facts},
      {call.slot_->name, streamTrack, start, whole, facts}};
  for (size_t i = 1; i < call.laps_.size(); ++i) {
    const TracedCall::Lap& lap = call.laps_[i];
    if (!lap.hasEnded) continue;
    const double begin = std::min(since(lap.begin), whole), end = std::min(since(lap.end), whole);
    const size_t stage = 1 + (i - 1) / kMaxChunks, chunk = (i - 1) % kMaxChunks;
    spans.push_back({kStageNames[stage],
                     lap.isAside ? trackOf(call.asideTrack_, call, "codec's stream") : streamTrack,
                     start + begin,
                     std::max(end - begin, 0.0),
                     {{"chunk", std::to_string(chunk)}}});
  }
  return spans;
}

// "communicator 1 rank 0 of 2: host", and of calls beside that "... host 2".
int CallTracer::trackOf(int& track, const TracedCall& call, const char* what) {
  if (track >= 0) return track;
  const auto beside = static_cast<size_t>(&call - calls_.data());
  const std::string number = beside == 0 ? "" : " " + std::to_string(beside + 1);
  return track = processTrace().addTrack(name_ + ": " + what + number);
}

// The call's own first event becomes the anchor where that is long ago.
void CallTracer::keepNear(TracedCall& call, uint64_t sinceAnchor) {
  if (sinceAnchor < kFarFromAnchor) return;
  anchorTime_ += static_cast<double>(sinceAnchor) / 1e3;
  std::swap(anchor_, call.laps_[0].begin);
}

void CallTracer::release(TracedCall& call) {
  call.phase_.store(TracedCall::Phase::free);
}

}  // namespace cinch
