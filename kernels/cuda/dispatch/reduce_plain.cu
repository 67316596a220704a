#include "kernels/cuda/dispatch/instance.h"
#include "kernels/cuda/dispatch/kernels.h"
#include "kernels/cuda/dispatch/reduce_kernel.cuh"

namespace cinch::cuda {

void listPlainReduceKernels(KernelList& kernels) {
  forEachPlainInstance(
      [&]<class Elements, class Codecs>() { addReduceKernels<Elements, Codecs>(kernels); });
}

Kernel<ReduceLaunch> plainReduceKernel(const ReduceLaunch& launch) {
  return plainKernel<Kernel<ReduceLaunch>>(launch.call, [&]<class Elements, class Codecs>() {
    return reduceKernelOf<Elements, Codecs>(launch);
  });
}

}  // namespace cinch::cuda
