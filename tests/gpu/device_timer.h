// What a benchmark needs of a device: memory, and the time that launches take. Ends the program
// where the device fails.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace cinch::bench {

// Ends the program with `what` where `error` is not 0.
void check(int error, const char* what);

// Equal slices of device memory, at multiples of 256 bytes.
class Slices {
 public:
  Slices(size_t nSlices, size_t sliceBytes);
  ~Slices() { cudaFree(memory_dev_); }
  Slices(const Slices&) = delete;
  Slices& operator=(const Slices&) = delete;

  uint8_t* operator[](size_t index) const { return memory_dev_ + index * stride_; }
  // Ordinary numbers of both signs in every element type: of a few powers of two, with random
  // mantissas.
  void fillWithNumbers() const;
  void fillWithZeros() const;

 private:
  size_t stride_, nBytes_;
  uint8_t* memory_dev_ = nullptr;
};

// Times work on a stream of its own, as replays of a graph, so that the time to launch is not in
// it.
class DeviceTimer {
 public:
  using Launch = std::function<void(size_t index, cudaStream_t stream)>;
  using Prepare = std::function<void(cudaStream_t stream)>;

  DeviceTimer();
  ~DeviceTimer();
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;

  // Median time of one of `nLaunches` launches, in microseconds. `prepare` runs before each replay
  // of them, and is not timed.
  double measure(size_t nLaunches, const Prepare& prepare, const Launch& launch);

 private:
  cudaGraphExec_t capture(size_t nLaunches, const Launch& launch);
  double replay(cudaGraphExec_t graph, const Prepare& prepare);

  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace cinch::bench
