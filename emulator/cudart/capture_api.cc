// cudaStreamBeginCapture and its kin.

#include "emulator/cudart/api.h"
#include "emulator/cudart/capture_rules.h"

namespace cinch::cudart {
namespace {

bool isMode(cudaStreamCaptureMode mode) {
  return mode >= cudaStreamCaptureModeGlobal && mode <= cudaStreamCaptureModeRelaxed;
}

template <class T>
void assign(T* to, const T& value) {
  if (to != nullptr) *to = value;
}

}  // namespace
}  // namespace cinch::cudart

using namespace cinch::cudart;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return onStream(stream, [&](Stream& found) {
    return isMode(mode) ? beginCapture(found, mode) : cudaErrorInvalidValue;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return onStream(stream, [&](Stream& found) {
    return graph == nullptr ? cudaErrorInvalidValue : endCapture(found, graph);
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     size_t* nNodes) {
  return onStream(stream, [&](Stream& found) {
    if (status == nullptr || (edges != nullptr && nodes == nullptr)) return cudaErrorInvalidValue;
    CaptureInfo info;
    if (const cudaError_t error = captureInfo(found, &info); error != cudaSuccess) return error;
    *status = info.status;
    if (info.status != cudaStreamCaptureStatusActive) return cudaSuccess;
    assign(id, info.id);
    assign(graph, info.graph);
    assign(nodes, info.nodes);
    assign(edges, info.edges);
    assign(nNodes, info.nNodes);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t, cudaGraph_t, const cudaGraphNode_t*,
                                          const cudaGraphEdgeData*, size_t, cudaStreamCaptureMode) {
  return notSupported();
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t, cudaGraphNode_t*,
                                                const cudaGraphEdgeData*, size_t, unsigned int) {
  return notSupported();
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return api([&] {
    if (mode == nullptr || !isMode(*mode)) return cudaErrorInvalidValue;
    *mode = exchangeCaptureMode(*mode);
    return cudaSuccess;
  });
}
