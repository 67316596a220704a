// The variants that programs call which were compiled for per-thread default streams
// (nvcc --default-stream per-thread): stream 0 is the calling thread's own.

#include "emulator/include/cuda_runtime_api.h"

namespace {

cudaStream_t perThread(cudaStream_t stream) {
  return stream == nullptr ? cudaStreamPerThread : stream;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

cudaError_t cudaMemcpy_ptds(void* to, const void* from, size_t nBytes, cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(to, from, nBytes, kind, cudaStreamPerThread);
  return error != cudaSuccess ? error : cudaStreamSynchronize(cudaStreamPerThread);
}

cudaError_t cudaMemset_ptds(void* memory, int value, size_t nBytes) {
  return cudaMemsetAsync(memory, value, nBytes, cudaStreamPerThread);
}

cudaError_t cudaMemcpyAsync_ptsz(void* to, const void* from, size_t nBytes, cudaMemcpyKind kind,
                                 cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, nBytes, kind, perThread(stream));
}

cudaError_t cudaMemcpy2DAsync_ptsz(void* to, size_t toPitch, const void* from, size_t fromPitch,
                                   size_t width, size_t height, cudaMemcpyKind kind,
                                   cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, toPitch, from, fromPitch, width, height, kind, perThread(stream));
}

cudaError_t cudaMemsetAsync_ptsz(void* memory, int value, size_t nBytes, cudaStream_t stream) {
  return cudaMemsetAsync(memory, value, nBytes, perThread(stream));
}

cudaError_t cudaMallocAsync_ptsz(void** memory, size_t nBytes, cudaStream_t stream) {
  return cudaMallocAsync(memory, nBytes, perThread(stream));
}

cudaError_t cudaFreeAsync_ptsz(void* memory, cudaStream_t stream) {
  return cudaFreeAsync(memory, perThread(stream));
}

cudaError_t cudaStreamGetFlags_ptsz(cudaStream_t stream, unsigned int* flags) {
  return cudaStreamGetFlags(perThread(stream), flags);
}

cudaError_t cudaStreamGetPriority_ptsz(cudaStream_t stream, int* priority) {
  return cudaStreamGetPriority(perThread(stream), priority);
}

cudaError_t cudaStreamGetDevice_ptsz(cudaStream_t stream, int* device) {
  return cudaStreamGetDevice(perThread(stream), device);
}

cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream) {
  return cudaStreamSynchronize(perThread(stream));
}

cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream) {
  return cudaStreamQuery(perThread(stream));
}

cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return cudaStreamWaitEvent(perThread(stream), event, flags);
}

cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t function, void* userData) {
  return cudaLaunchHostFunc(perThread(stream), function, userData);
}

cudaError_t cudaStreamAddCallback_ptsz(cudaStream_t stream, cudaStreamCallback_t callback,
                                       void* userData, unsigned int flags) {
  return cudaStreamAddCallback(perThread(stream), callback, userData, flags);
}

cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return cudaStreamBeginCapture(perThread(stream), mode);
}

cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t* graph) {
  return cudaStreamEndCapture(perThread(stream), graph);
}

cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamIsCapturing(perThread(stream), status);
}

cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                          unsigned long long* id, cudaGraph_t* graph,
                                          const cudaGraphNode_t** nodes,
                                          const cudaGraphEdgeData** edges, size_t* nNodes) {
  return cudaStreamGetCaptureInfo(perThread(stream), status, id, graph, nodes, edges, nNodes);
}

cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t executable, cudaStream_t stream) {
  return cudaGraphLaunch(executable, perThread(stream));
}

cudaError_t cudaGraphUpload_ptsz(cudaGraphExec_t executable, cudaStream_t stream) {
  return cudaGraphUpload(executable, perThread(stream));
}

cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecord(event, perThread(stream));
}

cudaError_t cudaEventRecordWithFlags_ptsz(cudaEvent_t event, cudaStream_t stream,
                                          unsigned int flags) {
  return cudaEventRecordWithFlags(event, perThread(stream), flags);
}

cudaError_t cudaLaunchKernel_ptsz(const void* function, dim3 grid, dim3 block, void** arguments,
                                  size_t sharedBytes, cudaStream_t stream) {
  return cudaLaunchKernel(function, grid, block, arguments, sharedBytes, perThread(stream));
}

cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config, const void* function,
                                     void** arguments) {
  return cudaLaunchKernelExC(config, function, arguments);
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t, dim3 grid, dim3 block, void** arguments,
                                    size_t sharedBytes, cudaStream_t stream) {
  return cudaLaunchKernel(nullptr, grid, block, arguments, sharedBytes, perThread(stream));
}

}  // extern "C"
#pragma GCC visibility pop
