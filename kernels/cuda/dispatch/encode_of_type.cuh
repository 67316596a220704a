// What encode_fp32.cu, encode_fp16.cu and encode_bf16.cu are made of.
#pragma once

#include "kernels/cuda/dispatch/encode_kernel.cuh"
#include "kernels/cuda/dispatch/instance.h"

namespace cinch::cuda {

template <ElementType type>
Kernel<EncodeLaunch> encodeKernelOf(uint8_t codecId, Kept kept) {
  return frequentKernel<Kernel<EncodeLaunch>>(codecId, [&]<class C>() -> Kernel<EncodeLaunch> {
    if (kept == Kept::codes) return encodeKernel<Elements<type>, OneCodec<C>, Kept::codes>;
    return encodeKernel<Elements<type>, OneCodec<C>, Kept::residual>;
  });
}

}  // namespace cinch::cuda
