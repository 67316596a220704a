// The rules of capture: what becomes of a call while streams are being captured. Thread-safe. All
// of it costs one atomic read while nothing is captured.
#pragma once

#include "emulator/cudart/capture.h"
#include "emulator/cudart/event.h"

namespace cinch::cudart {

// Makes `call` on the stream, or records it where the stream is being captured.
cudaError_t perform(Stream& stream, cudaGraphNodeType type, Call call);

cudaError_t recordEvent(const std::shared_ptr<Event>& event, Stream& stream);
// In a capture, a stream that waits for an event of the capture becomes part of it.
cudaError_t waitEvent(Stream& stream, const Event& event);

// In captures only: each launch of the graph records the event, or waits for what was recorded
// last.
cudaError_t recordExternalEvent(const std::shared_ptr<Event>& event, Stream& stream);
cudaError_t waitExternalEvent(Stream& stream, const std::shared_ptr<Event>& event);

// Whether a call of a kind that captures do not see may be made. Each breaks the captures that
// stand against it, as CUDA does.
cudaError_t checkUnsafe();                          // allocates, or waits for anything
cudaError_t checkUncaptured(const Stream& stream);  // enqueues what cannot be captured
cudaError_t checkWait(const Stream& stream);        // waits for, or asks about, a stream
cudaError_t checkWait(const Recording* recording);  // null: of an event never recorded
cudaError_t checkDevice();                          // concerns all streams

cudaError_t beginCapture(const Stream& stream, cudaStreamCaptureMode mode);
cudaError_t endCapture(const Stream& stream, cudaGraph_t* graph);
// Breaks the capture of a stream that is about to be destroyed; that of an origin is over.
void abandonCapture(const Stream& stream);

// What CUDA tells of a stream; all but the status only where it is active.
struct CaptureInfo {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* nodes = nullptr;  // what the next call will wait for
  const cudaGraphEdgeData* edges = nullptr;
  size_t nNodes = 0;
};
cudaError_t captureInfo(const Stream& stream, CaptureInfo* info);

// Sets the calling thread's mode and returns the one before.
cudaStreamCaptureMode exchangeCaptureMode(cudaStreamCaptureMode mode);

}  // namespace cinch::cudart
