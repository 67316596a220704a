// What reduce_fp32.cu, reduce_fp16.cu and reduce_bf16.cu are made of.
#pragma once

#include "kernels/cuda/dispatch/instance.h"
#include "kernels/cuda/dispatch/reduce_kernel.cuh"

namespace cinch::cuda {

template <ElementType type>
Kernel<ReduceLaunch> reduceKernelOf(const ReduceLaunch& launch) {
  return frequentKernel<Kernel<ReduceLaunch>>(launch.call.layout.codec.id, [&]<class C>() {
    return reduceKernelWith<Elements<type>, OneCodec<C>>(launch);
  });
}

}  // namespace cinch::cuda
