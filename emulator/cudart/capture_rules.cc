#include "emulator/cudart/capture_rules.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

namespace cinch::cudart {
namespace {

thread_local cudaStreamCaptureMode threadMode = cudaStreamCaptureModeGlobal;

// The captures that have begun and not ended.
struct Captures {
  std::mutex mutex;
  std::atomic<size_t> count{0};  // written under the mutex
  std::vector<std::shared_ptr<Capture>> all;
  unsigned long long lastId = 0;

  // Null where the stream is not being captured.
  std::shared_ptr<Capture> of(const Stream& stream) const {
    for (const auto& capture : all)
      if (capture->has(stream)) return capture;
    return nullptr;
  }

  void add(const Stream& origin, cudaStreamCaptureMode mode) {
    all.push_back(std::make_shared<Capture>(++lastId, origin, mode));
    count.store(all.size(), std::memory_order_release);
  }

  void remove(const std::shared_ptr<Capture>& capture) {
    std::erase(all, capture);
    count.store(all.size(), std::memory_order_release);
  }

  bool has(const std::shared_ptr<Capture>& capture) const {
    return std::find(all.begin(), all.end(), capture) != all.end();
  }

  bool haveBlockingStream() const {
    return std::any_of(all.begin(), all.end(),
                       [](const auto& capture) { return capture->hasBlockingStream(); });
  }
};

Captures& captures() {
  static auto* const instance = new Captures;  // outlives the process's exit
  return *instance;
}

bool nothingIsCaptured() {
  return captures().count.load(std::memory_order_acquire) == 0;
}

// The functions below are called with the lock held.

// Breaks the captures that `stands` is true of; `error` if there is any.
template <class Predicate>
cudaError_t breakCaptures(cudaError_t error, Predicate&& stands) {
  cudaError_t result = cudaSuccess;
  for (const auto& capture : captures().all) {
    if (!stands(*capture)) continue;
    capture->invalidate();
    result = error;
  }
  return result;
}

// The null stream would wait for blocking streams, which is impossible while they are captured.
cudaError_t refuseLegacy(const Stream& stream) {
  if (!stream.isLegacy()) return cudaSuccess;
  return breakCaptures(cudaErrorStreamCaptureImplicit,
                       [](const Capture& it) { return it.hasBlockingStream(); });
}

cudaError_t refuseUnsafe() {
  return breakCaptures(cudaErrorStreamCaptureUnsupported,
                       [](const Capture& it) { return it.forbidsUnsafeCalls(threadMode); });
}

cudaError_t refuseCaptured(const Stream& stream) {
  if (const cudaError_t error = refuseLegacy(stream); error != cudaSuccess) return error;
  const auto capture = captures().of(stream);
  if (capture == nullptr) return cudaSuccess;
  if (capture->isBroken()) return cudaErrorStreamCaptureInvalidated;
  capture->invalidate();
  return cudaErrorStreamCaptureUnsupported;
}

// A stream waits for an event that was recorded in a capture, and so becomes part of that capture.
cudaError_t join(const Stream& stream, const std::shared_ptr<Capture>& own,
                 const CapturedPoint& point) {
  if (!captures().has(point.capture)) {
    if (own != nullptr) own->invalidate();
    return cudaErrorCapturedEvent;
  }
  if (point.capture->isBroken()) return cudaErrorStreamCaptureInvalidated;
  if (stream.isLegacy()) {
    point.capture->invalidate();
    return cudaErrorStreamCaptureImplicit;
  }
  if (own == nullptr || own == point.capture) {
    point.capture->join(stream, point.after);
    return cudaSuccess;
  }
  own->invalidate();
  point.capture->invalidate();
  return cudaErrorStreamCaptureMerge;
}

// What a call on a stream has come to while something is captured; nothing: it is still to be made,
// as if there were no captures.
using Outcome = std::optional<cudaError_t>;

Outcome addToCapture(const Stream& stream, cudaGraphNodeType type, Call& call) {
  if (const cudaError_t error = refuseLegacy(stream); error != cudaSuccess) return error;
  const auto capture = captures().of(stream);
  if (capture == nullptr) return std::nullopt;
  if (capture->isBroken()) return cudaErrorStreamCaptureInvalidated;
  capture->add(stream, type, std::move(call));
  return cudaSuccess;
}

Outcome recordInCapture(const Stream& stream, Event& event) {
  if (const cudaError_t error = refuseLegacy(stream); error != cudaSuccess) return error;
  const auto capture = captures().of(stream);
  if (capture == nullptr) return std::nullopt;
  if (capture->isBroken()) return cudaErrorStreamCaptureInvalidated;
  event.record(
      std::make_shared<const CapturedPoint>(CapturedPoint{capture, capture->after(stream)}));
  return cudaSuccess;
}

// `recording`: null where the event was never recorded, which orders nothing.
Outcome waitInCapture(const Stream& stream, const Recording* recording) {
  if (const cudaError_t error = refuseLegacy(stream); error != cudaSuccess) return error;
  const auto capture = captures().of(stream);
  if (capture != nullptr && capture->isBroken()) return cudaErrorStreamCaptureInvalidated;
  if (recording != nullptr && recording->captured != nullptr)
    return join(stream, capture, *recording->captured);
  if (capture == nullptr) return std::nullopt;
  if (recording == nullptr) return cudaSuccess;
  capture->invalidate();
  return cudaErrorStreamCaptureIsolation;
}

// End of the functions that are called with the lock held.

template <class Rule>
auto whileCaptured(Rule&& rule) -> decltype(rule()) {
  if (nothingIsCaptured()) return {};  // cudaSuccess, or no outcome
  std::lock_guard lock(captures().mutex);
  return rule();
}

bool isCaptured(const Stream& stream) {
  return whileCaptured([&] { return captures().of(stream) != nullptr; });
}

void waitForLatest(Stream& stream, const Event& event) {
  const auto recording = event.latest();
  if (recording != nullptr && recording->captured == nullptr) stream.waitFor(recording->ticket);
}

}  // namespace

cudaError_t perform(Stream& stream, cudaGraphNodeType type, Call call) {
  const Outcome outcome = whileCaptured([&] { return addToCapture(stream, type, call); });
  if (outcome) return *outcome;
  call(stream);
  return cudaSuccess;
}

cudaError_t recordEvent(const std::shared_ptr<Event>& event, Stream& stream) {
  const Outcome outcome = whileCaptured([&] { return recordInCapture(stream, *event); });
  if (outcome) return *outcome;
  event->record(stream);
  return cudaSuccess;
}

cudaError_t recordExternalEvent(const std::shared_ptr<Event>& event, Stream& stream) {
  if (!isCaptured(stream)) return cudaErrorInvalidValue;
  return perform(stream, cudaGraphNodeTypeEventRecord,
                 [event](Stream& lane) { event->record(lane); });
}

cudaError_t waitEvent(Stream& stream, const Event& event) {
  const auto recording = event.latest();
  const Outcome outcome = whileCaptured([&] { return waitInCapture(stream, recording.get()); });
  if (outcome) return *outcome;
  if (recording == nullptr) return cudaSuccess;
  if (recording->captured != nullptr) return cudaErrorCapturedEvent;
  stream.waitFor(recording->ticket);
  return cudaSuccess;
}

cudaError_t waitExternalEvent(Stream& stream, const std::shared_ptr<Event>& event) {
  if (!isCaptured(stream)) return cudaErrorInvalidValue;
  return perform(stream, cudaGraphNodeTypeWaitEvent,
                 [event](Stream& lane) { waitForLatest(lane, *event); });
}

cudaError_t checkUnsafe() {
  return whileCaptured(refuseUnsafe);
}

cudaError_t checkUncaptured(const Stream& stream) {
  return whileCaptured([&] { return refuseCaptured(stream); });
}

cudaError_t checkWait(const Stream& stream) {
  const cudaError_t error = checkUncaptured(stream);
  return error == cudaSuccess ? checkUnsafe() : error;
}

cudaError_t checkWait(const Recording* recording) {
  if (recording == nullptr || recording->captured == nullptr) return checkUnsafe();
  const auto& capture = recording->captured->capture;
  std::lock_guard lock(captures().mutex);
  if (captures().has(capture)) capture->invalidate();
  return cudaErrorCapturedEvent;
}

cudaError_t checkDevice() {
  return whileCaptured([] {
    return breakCaptures(cudaErrorStreamCaptureUnsupported, [](const Capture&) { return true; });
  });
}

cudaError_t beginCapture(const Stream& stream, cudaStreamCaptureMode mode) {
  if (stream.isLegacy()) return cudaErrorStreamCaptureUnsupported;
  std::lock_guard lock(captures().mutex);
  if (captures().of(stream) != nullptr) return cudaErrorIllegalState;
  captures().add(stream, mode);
  return cudaSuccess;
}

cudaError_t endCapture(const Stream& stream, cudaGraph_t* graph) {
  *graph = nullptr;
  std::unique_lock lock(captures().mutex);
  const auto capture = captures().of(stream);
  if (capture == nullptr) return cudaErrorIllegalState;
  if (!capture->isOrigin(stream)) {
    capture->invalidate();
    return cudaErrorStreamCaptureUnmatched;
  }
  if (!capture->mayBeEnded()) return cudaErrorStreamCaptureWrongThread;
  captures().remove(capture);
  lock.unlock();  // what ends with the graph may run the program's code
  return capture->end(graph);
}

void abandonCapture(const Stream& stream) {
  std::unique_lock lock(captures().mutex);
  const auto capture = captures().of(stream);
  if (capture == nullptr) return;
  capture->invalidate();
  if (!capture->isOrigin(stream)) return;
  captures().remove(capture);
  lock.unlock();
  cudaGraph_t none = nullptr;
  capture->end(&none);
}

cudaError_t captureInfo(const Stream& stream, CaptureInfo* info) {
  *info = {};
  return whileCaptured([&] {
    // Asking breaks nothing.
    if (stream.isLegacy() && captures().haveBlockingStream()) return cudaErrorStreamCaptureImplicit;
    const auto capture = captures().of(stream);
    if (capture == nullptr) return cudaSuccess;
    info->status = cudaStreamCaptureStatusInvalidated;
    if (capture->isBroken()) return cudaSuccess;
    const auto& [nodes, edges] = capture->dependencies(stream);
    *info = {cudaStreamCaptureStatusActive,
             capture->id(),
             capture->graph(),
             nodes.data(),
             edges.data(),
             nodes.size()};
    return cudaSuccess;
  });
}

cudaStreamCaptureMode exchangeCaptureMode(cudaStreamCaptureMode mode) {
  return std::exchange(threadMode, mode);
}

}  // namespace cinch::cudart
