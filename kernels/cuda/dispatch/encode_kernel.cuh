// The kernels that encode, in several files: together they take a compiler minutes.
#pragma once

#include "kernels/cuda/dispatch/dispatch.cuh"
#include "kernels/cuda/dispatch/instance.h"
#include "kernels/cuda/dispatch/kernel_bounds.cuh"

namespace cinch::cuda {

template <class Elements, class Codecs, Kept kept>
__global__ void __launch_bounds__(kThreadsPerCta, ctasForEncode<Elements, Codecs, kept>())
    encodeKernel(const __grid_constant__ EncodeLaunch launch) {
  encodeRow<Elements, Codecs, kept>(launch);
}

// Those of adaptive precision, of encode_adaptive.cu.
template <class Elements, Kept kept>
Kernel<EncodeLaunch> adaptiveEncodeKernel();

}  // namespace cinch::cuda
