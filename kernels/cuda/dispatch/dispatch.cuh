// What the launches share: a grid, and the launch itself.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/dispatch/grid.h"
#include "kernels/cuda/dispatch/kernel_bounds.cuh"
#include "kernels/cuda/dispatch/kernels.h"

namespace cinch::cuda {

template <class Launch>
using Kernel = void (*)(Launch);

// Enqueues `kernel` with a copy of `launch`. The error is this call's own: the runtime's last error
// may be an old one.
template <class Launch>
cudaError_t launchGrid(Kernel<Launch> kernel, dim3 grid, uint32_t nThreads, const Launch& launch,
                       void* stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(nThreads);
  config.stream = static_cast<cudaStream_t>(stream);
  void* arguments[] = {const_cast<Launch*>(&launch)};
  return cudaLaunchKernelExC(&config, handleOf(kernel), arguments);
}

// The same in rows of CTAs that share `nTiles` tiles each.
template <class Launch>
cudaError_t launchRows(Kernel<Launch> kernel, uint64_t nTiles, uint32_t nRows, const Launch& launch,
                       void* stream) {
  dim3 grid;
  if (const cudaError_t error = gridFor(handleOf(kernel), nTiles, nRows, &grid)) return error;
  return launchGrid(kernel, grid, kThreadsPerCta, launch, stream);
}

}  // namespace cinch::cuda
