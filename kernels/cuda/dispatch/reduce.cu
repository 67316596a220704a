#include "kernels/cuda/agent/reduce_agent.cuh"
#include "kernels/cuda/dispatch/codec_launch.cuh"
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

__global__ void __launch_bounds__(kThreadsPerCta, kCtasForReduce<AnyCodec>)
    reduceBatchKernel(const __grid_constant__ LaunchBatch<ReduceLaunch> batch) {
  reduceShard(batch);
}

Kernel<ReduceLaunch> kernelFor(const ReduceLaunch& launch) {
  return chooseKernel<Kernel<ReduceLaunch>>(
      launch.call, isPlain(launch), [&]<class Elements, class Codecs>() -> Kernel<ReduceLaunch> {
        if (launch.ownCodes) return reduceIntoValuesKernel<Elements, Codecs, Parts::ofTwoCodes>;
        if (launch.values) return reduceIntoValuesKernel<Elements, Codecs, Parts::ofRanks>;
        return reduceKernel<Elements, Codecs>;
      });
}

}  // namespace

int launchReduce(const ReduceLaunch* launches, uint32_t n, void* stream) {
  return launchAll(std::span(launches, n), reduceBatchKernel, stream, [&](const auto& launch) {
    return launchShards(kernelFor(launch), launch, stream);
  });
}

}  // namespace cinch::cuda
