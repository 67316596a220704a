// The few pieces of the CUDA runtime that the job needs, owned by objects. Failures are
// std::runtime_error.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace lm {

// Throws where `error` is one, naming the call.
void checkCuda(cudaError_t error, const char* call);

// Makes the device of this rank current: ranks beyond the number of devices share them in turn.
void useDevice(int rank);

class DeviceMemory {
 public:
  explicit DeviceMemory(size_t nBytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  void* data() const { return memory_dev_; }

 private:
  void* memory_dev_ = nullptr;
};

class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  // Copies between host and device, in either direction, and waits.
  void copy(void* to, const void* from, size_t nBytes);

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace lm
