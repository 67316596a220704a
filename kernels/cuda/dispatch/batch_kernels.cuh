// Kernels for launches that have none of their own, and for several small ones together. They have
// files of their own: with the others they take a compiler minutes.
#pragma once

#include "kernels/cuda/agent/launch_batch.cuh"

namespace cinch::cuda {

__global__ void encodeBatchKernel(const __grid_constant__ LaunchBatch<EncodeLaunch> batch);
__global__ void reduceBatchKernel(const __grid_constant__ LaunchBatch<ReduceLaunch> batch);

}  // namespace cinch::cuda
