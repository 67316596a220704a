#include "tests/gpu/device_timer.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace cinch::bench {
namespace {

constexpr int kRepeats = 9;
constexpr size_t kAlignment = 256;
constexpr size_t kPatternBytes = size_t{16} << 20;

std::vector<uint16_t> ordinaryWords() {
  std::vector<uint16_t> words(kPatternBytes / 2);
  uint32_t random = 1;
  for (uint16_t& word : words) {
    random = random * 1664525 + 1013904223;
    word = static_cast<uint16_t>((random >> 16 & 0x80ff) | 0x3c00);
  }
  return words;
}

}  // namespace

void check(int error, const char* what) {
  if (error == 0) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(static_cast<cudaError_t>(error)));
  std::exit(1);
}

Slices::Slices(size_t nSlices, size_t sliceBytes)
    : stride_((sliceBytes + kAlignment - 1) / kAlignment * kAlignment), nBytes_(nSlices * stride_) {
  void* memory_dev = nullptr;
  check(cudaMalloc(&memory_dev, nBytes_), "cudaMalloc");
  memory_dev_ = static_cast<uint8_t*>(memory_dev);
  fillWithZeros();
}

void Slices::fillWithNumbers() const {
  static const std::vector<uint16_t> words = ordinaryWords();
  for (size_t first = 0; first < nBytes_; first += kPatternBytes)
    check(cudaMemcpy(memory_dev_ + first, words.data(), std::min(kPatternBytes, nBytes_ - first),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
}

void Slices::fillWithZeros() const {
  check(cudaMemset(memory_dev_, 0, nBytes_), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaMemset");
}

DeviceTimer::DeviceTimer() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaEventCreate(&begin_), "cudaEventCreate");
  check(cudaEventCreate(&end_), "cudaEventCreate");
}

DeviceTimer::~DeviceTimer() {
  cudaEventDestroy(begin_);
  cudaEventDestroy(end_);
  cudaStreamDestroy(stream_);
}

double DeviceTimer::measure(size_t nLaunches, const Prepare& prepare, const Launch& launch) {
  // Loads the kernel, and warms up.
  prepare(stream_);
  for (size_t index = 0; index < nLaunches; ++index) launch(index, stream_);
  check(cudaStreamSynchronize(stream_), "kernel");

  cudaGraphExec_t graph = capture(nLaunches, launch);
  replay(graph, prepare);
  std::vector<double> times(kRepeats);
  for (double& time : times) time = replay(graph, prepare) / static_cast<double>(nLaunches);
  check(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy");
  std::nth_element(times.begin(), times.begin() + kRepeats / 2, times.end());
  return times[kRepeats / 2];
}

cudaGraphExec_t DeviceTimer::capture(size_t nLaunches, const Launch& launch) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "begin capture");
  for (size_t index = 0; index < nLaunches; ++index) launch(index, stream_);
  check(cudaStreamEndCapture(stream_, &graph), "end capture");
  check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  check(cudaGraphUpload(executable, stream_), "cudaGraphUpload");
  return executable;
}

double DeviceTimer::replay(cudaGraphExec_t graph, const Prepare& prepare) {
  prepare(stream_);
  check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
  check(cudaGraphLaunch(graph, stream_), "cudaGraphLaunch");
  check(cudaEventRecord(end_, stream_), "cudaEventRecord");
  check(cudaEventSynchronize(end_), "kernels");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
  return 1000.0 * milliseconds;
}

}  // namespace cinch::bench
