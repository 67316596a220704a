#include "kernels/cuda/agent/reduce_agent.cuh"
#include "kernels/cuda/dispatch/batch_kernels.cuh"
#include "kernels/cuda/dispatch/kernel_bounds.cuh"

namespace cinch::cuda {

__global__ void __launch_bounds__(kThreadsPerCta, kCtasForReduce<AnyCodec>)
    reduceBatchKernel(const __grid_constant__ LaunchBatch<ReduceLaunch> batch) {
  reduceShard(batch);
}

}  // namespace cinch::cuda
