// Encode kernels for runs of adaptive precision: each file that includes this says which it has.
#pragma once

#include "kernels/cuda/dispatch/encode_kernel.cuh"

namespace cinch::cuda {

template <class Elements, Kept kept>
Kernel<EncodeLaunch> adaptiveEncodeKernel() {
  return encodeKernel<Elements, AdaptiveCodec, kept>;
}

}  // namespace cinch::cuda
