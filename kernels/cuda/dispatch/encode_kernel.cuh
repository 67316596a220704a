// The kernels that encode, in files of their own: all together they take a compiler minutes.
#pragma once

#include "kernels/cuda/agent/encode_agent.cuh"
#include "kernels/cuda/agent/launch_batch.cuh"
#include "kernels/cuda/dispatch/dispatch.cuh"

namespace cinch::cuda {

template <class Elements, class Codecs, Kept kept>
__global__ void __launch_bounds__(kThreadsPerCta, ctasForEncode<Elements, Codecs, kept>())
    encodeKernel(const __grid_constant__ EncodeLaunch launch) {
  encodeRow<Elements, Codecs, kept>(launch);
}

// The kernel of one type and codec that keeps `kept`, which is codes or residuals too; null for a
// codec that has no kernel of its own. Defined in encode_of_type.cuh.
template <ElementType type>
Kernel<EncodeLaunch> encodeKernelOf(uint8_t codecId, Kept kept);

// That of several small calls.
__global__ void encodeBatchKernel(const __grid_constant__ LaunchBatch<EncodeLaunch> batch);

}  // namespace cinch::cuda
