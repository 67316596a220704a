// What the three launches share: a kernel instance, a grid, and the launch itself.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/dispatch/grid.h"
#include "kernels/cuda/dispatch/instance.h"
#include "kernels/cuda/tuning/codec_tuning.h"
#include "kernels/device_table.h"

namespace cinch::cuda {

inline bool isCodedBuffer(const uint8_t* buffer) {
  return reinterpret_cast<uintptr_t>(buffer) % 16 == 0;
}

// Enqueues `kernel` with a copy of `launch`. The error is this call's own: the runtime's last error
// may be an old one.
template <class Launch>
cudaError_t launchGrid(void (*kernel)(Launch), dim3 grid, const Launch& launch, void* stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = kThreadsPerCta;
  config.stream = static_cast<cudaStream_t>(stream);
  return cudaLaunchKernelEx(&config, kernel, launch);
}

}  // namespace cinch::cuda
