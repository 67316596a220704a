#include "kernels/cuda/agent/encode_agent.cuh"
#include "kernels/cuda/dispatch/batch_kernels.cuh"
#include "kernels/cuda/dispatch/kernel_bounds.cuh"

namespace cinch::cuda {

__global__ void __launch_bounds__(kThreadsPerCta,
                                  ctasForEncode<AnyElements, AnyCodec, Kept::anything>())
    encodeBatchKernel(const __grid_constant__ LaunchBatch<EncodeLaunch> batch) {
  encodeRow(batch);
}

}  // namespace cinch::cuda
