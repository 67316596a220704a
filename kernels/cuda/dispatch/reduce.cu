#include "kernels/cuda/agent/reduce_agent.cuh"
#include "kernels/cuda/dispatch/dispatch.cuh"
#include "kernels/cuda/dispatch/launch.h"

namespace cinch::cuda {
namespace {

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

}  // namespace

int launchReduce(const ReduceLaunch* launch, void* stream) {
  if (!isCodedBuffer(launch->peers) || !isCodedBuffer(launch->ownCodes) ||
      !isCodedBuffer(launch->output))
    return cudaErrorMisalignedAddress;
  const auto kernel = chooseKernel<Kernel<ReduceLaunch>>(
      launch->call, isPlain(*launch), [&]<class Elements, class Codecs>() -> Kernel<ReduceLaunch> {
        if (launch->ownCodes) return reduceIntoValuesKernel<Elements, Codecs, Parts::ofTwoCodes>;
        if (launch->values) return reduceIntoValuesKernel<Elements, Codecs, Parts::ofRanks>;
        return reduceKernel<Elements, Codecs>;
      });
  return launchShards(kernel, 1, *launch, stream);
}

}  // namespace cinch::cuda
