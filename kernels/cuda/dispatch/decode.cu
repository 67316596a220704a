#include "kernels/cuda/agent/decode_agent.cuh"
#include "kernels/cuda/dispatch/codec_launch.cuh"
#include "kernels/cuda/dispatch/kernels.h"
#include "kernels/cuda/dispatch/launch.h"

namespace cinch::cuda {
namespace {

template <class Elements, class Codecs>
__global__ void __launch_bounds__(kThreadsPerCta, kCtasForSums)
    decodeKernel(const __grid_constant__ DecodeLaunch launch) {
  decodeRow<Elements, Codecs>(launch);
}

__global__ void __launch_bounds__(kThreadsPerCta, kCtasForSums)
    decodeBatchKernel(const __grid_constant__ LaunchBatch<DecodeLaunch> batch) {
  decodeRow(batch);
}

Kernel<DecodeLaunch> kernelFor(const DecodeLaunch& launch) {
  return chooseKernel<Kernel<DecodeLaunch>>(
      launch.call, true, [&]<class Elements, class Codecs>() -> Kernel<DecodeLaunch> {
        return decodeKernel<Elements, Codecs>;
      });
}

}  // namespace

void listDecodeKernels(KernelList& kernels) {
  forEachPlainInstance(
      [&]<class Elements, class Codecs>() { add(kernels, decodeKernel<Elements, Codecs>); });
  add(kernels, decodeKernel<AnyElements, AnyCodec>);
  add(kernels, decodeBatchKernel);
}

int launchDecode(const DecodeLaunch* launches, uint32_t n, void* stream) {
  return launchAll(std::span(launches, n), decodeBatchKernel, stream, [&](const auto& launch) {
    return launchShards(kernelFor(launch), launch, stream);
  });
}

}  // namespace cinch::cuda
