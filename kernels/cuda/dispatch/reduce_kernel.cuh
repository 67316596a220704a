// The kernels that reduce, in files of their own: all together they take a compiler minutes.
#pragma once

#include "kernels/cuda/agent/launch_batch.cuh"
#include "kernels/cuda/agent/reduce_agent.cuh"
#include "kernels/cuda/dispatch/dispatch.cuh"

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
Kernel<ReduceLaunch> reduceKernelWith(const ReduceLaunch& launch) {
  if (launch.ownCodes) return reduceIntoValuesKernel<Elements, Codecs, Parts::ofTwoCodes>;
  if (launch.values) return reduceIntoValuesKernel<Elements, Codecs, Parts::ofRanks>;
  return reduceKernel<Elements, Codecs>;
}

// That of one type and of the launch's codec; null for a codec that has no kernel of its own.
// Defined in reduce_of_type.cuh.
template <ElementType type>
Kernel<ReduceLaunch> reduceKernelOf(const ReduceLaunch& launch);

// That of several small calls.
__global__ void reduceBatchKernel(const __grid_constant__ LaunchBatch<ReduceLaunch> batch);

}  // namespace cinch::cuda
