#include "examples/lm/device.h"

#include <stdexcept>
#include <string>

namespace lm {

void checkCuda(cudaError_t error, const char* call) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(call) + " failed: " + cudaGetErrorString(error));
}

void useDevice(int rank) {
  int count = 0;
  checkCuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (count == 0) throw std::runtime_error("this machine has no CUDA device");
  checkCuda(cudaSetDevice(rank % count), "cudaSetDevice");
}

DeviceMemory::DeviceMemory(size_t nBytes) {
  checkCuda(cudaMalloc(&memory_dev_, nBytes), "cudaMalloc");
}

DeviceMemory::~DeviceMemory() {
  cudaFree(memory_dev_);
}

Stream::Stream() {
  checkCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
            "cudaStreamCreateWithFlags");
}

Stream::~Stream() {
  cudaStreamDestroy(stream_);
}

void Stream::copy(void* to, const void* from, size_t nBytes) {
  checkCuda(cudaMemcpyAsync(to, from, nBytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
  checkCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

}  // namespace lm
