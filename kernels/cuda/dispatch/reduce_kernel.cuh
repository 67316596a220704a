// The kernels that reduce, in two files: together they take a compiler minutes.
#pragma once

#include "kernels/cuda/agent/reduce_agent.cuh"
#include "kernels/cuda/dispatch/dispatch.cuh"
#include "kernels/cuda/dispatch/kernel_bounds.cuh"
#include "kernels/cuda/dispatch/kernels.h"

namespace cinch::cuda {

template <class Elements, class Codecs>
__global__ void __launch_bounds__(kThreadsPerCta, kCtasForReduce<Codecs>)
    reduceKernel(const __grid_constant__ ReduceLaunch launch) {
  ReduceAgent<Elements, Codecs>(launch).run();
}

template <class Elements, class Codecs, Parts parts>
__global__ void __launch_bounds__(kThreadsPerCta, kCtasForReduce<Codecs>)
    reduceIntoValuesKernel(const __grid_constant__ ReduceLaunch launch) {
  ReduceIntoValuesAgent<Elements, Codecs, parts>(launch).run();
}

// The one that does what the launch asks for.
template <class Elements, class Codecs>
Kernel<ReduceLaunch> reduceKernelOf(const ReduceLaunch& launch) {
  if (launch.ownCodes) return reduceIntoValuesKernel<Elements, Codecs, Parts::ofTwoCodes>;
  if (launch.values) return reduceIntoValuesKernel<Elements, Codecs, Parts::ofRanks>;
  return reduceKernel<Elements, Codecs>;
}

// All that it chooses from.
template <class Elements, class Codecs>
void addReduceKernels(KernelList& kernels) {
  add(kernels, reduceIntoValuesKernel<Elements, Codecs, Parts::ofTwoCodes>);
  add(kernels, reduceIntoValuesKernel<Elements, Codecs, Parts::ofRanks>);
  add(kernels, reduceKernel<Elements, Codecs>);
}

// That of the launch's type and codec, of reduce_plain.cu; null for a codec that has none of its
// own.
Kernel<ReduceLaunch> plainReduceKernel(const ReduceLaunch& launch);

}  // namespace cinch::cuda
