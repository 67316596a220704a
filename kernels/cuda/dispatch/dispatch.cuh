// What the launches share: a grid, and the launch itself.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/dispatch/grid.h"
#include "kernels/cuda/dispatch/instance.h"
#include "kernels/cuda/dispatch/kernel_bounds.cuh"
#include "kernels/cuda/tuning/codec_tuning.h"

namespace cinch::cuda {

template <class Launch>
using Kernel = void (*)(Launch);

inline bool isCodedBuffer(const uint8_t* buffer) {
  return reinterpret_cast<uintptr_t>(buffer) % 16 == 0;
}

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
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), arguments);
}

// The same in rows of CTAs that share `nTiles` tiles each.
template <class Launch>
cudaError_t launchRows(Kernel<Launch> kernel, uint64_t nTiles, uint32_t nRows, const Launch& launch,
                       void* stream) {
  dim3 grid;
  if (const cudaError_t error = gridFor(nTiles, nRows, &grid)) return error;
  return launchGrid(kernel, grid, kThreadsPerCta, launch, stream);
}

// The same on the shards of a call, or on one of them.
template <class Launch>
cudaError_t launchShards(Kernel<Launch> kernel, uint32_t nShards, const Launch& launch,
                         void* stream) {
  if (!kernel) return cudaErrorInvalidValue;
  // Mixed shards are described in device memory; none has more tiles than the bucket, and a chunk
  // seldom more than its share. Rows that have more go on with them.
  const wire::ShardLayout& layout = launch.call.layout;
  const uint64_t nTiles =
      layout.isMixed() ? layout.tiles() / layout.nChunks + 1 : layout.shardTiles(0);
  return launchRows(kernel, nTiles, nShards, launch, stream);
}

}  // namespace cinch::cuda
