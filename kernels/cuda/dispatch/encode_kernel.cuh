// The kernels that encode, in two files: together they take a compiler minutes.
#pragma once

#include "kernels/cuda/agent/encode_agent.cuh"
#include "kernels/cuda/dispatch/dispatch.cuh"
#include "kernels/cuda/dispatch/kernel_bounds.cuh"
#include "kernels/cuda/dispatch/kernels.h"

namespace cinch::cuda {

template <class Elements, class Codecs, Kept kept>
__global__ void __launch_bounds__(kThreadsPerCta, ctasForEncode<Elements, Codecs, kept>())
    encodeKernel(const __grid_constant__ EncodeLaunch launch) {
  encodeRow<Elements, Codecs, kept>(launch);
}

// That of the call's type for runs of adaptive precision, with residuals in fp32: of
// encode_adaptive.cu.
Kernel<EncodeLaunch> adaptiveEncodeKernel(const CallContext& call);

}  // namespace cinch::cuda
