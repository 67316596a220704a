#include "kernels/cuda/agent/reduce_agent.cuh"
#include "kernels/cuda/dispatch/codec_launch.cuh"
#include "kernels/cuda/dispatch/launch.h"
#include "kernels/cuda/dispatch/reduce_kernel.cuh"

namespace cinch::cuda {
namespace {

Kernel<ReduceLaunch> kernelFor(const ReduceLaunch& launch) {
  const auto ofType = [&]<ElementType type>() { return reduceKernelOf<type>(launch); };
  return chooseByType<Kernel<ReduceLaunch>>(launch.call, isPlain(launch), ofType,
                                            reduceKernelWith<AnyElements, AnyCodec>(launch));
}

}  // namespace

int launchReduce(const ReduceLaunch* launches, uint32_t n, void* stream) {
  return launchAll(std::span(launches, n), reduceBatchKernel, stream, [&](const auto& launch) {
    return launchShards(kernelFor(launch), launch, stream);
  });
}

}  // namespace cinch::cuda
