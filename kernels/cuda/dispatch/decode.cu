#include "kernels/cuda/agent/decode_agent.cuh"
#include "kernels/cuda/dispatch/dispatch.cuh"
#include "kernels/cuda/dispatch/launch.h"

namespace cinch::cuda {
namespace {

template <class Elements, class Codecs>
__global__ void __launch_bounds__(kThreadsPerCta, kCtasForSums)
    decodeKernel(const __grid_constant__ DecodeLaunch launch) {
  DecodeAgent<Elements, Codecs>(launch, ShardView(launch.call.layout, blockIdx.y)).run();
}

}  // namespace

int launchDecode(const DecodeLaunch* launch, void* stream) {
  if (!isCodedBuffer(launch->input)) return cudaErrorMisalignedAddress;
  const auto kernel = chooseKernel<Kernel<DecodeLaunch>>(
      launch->call, true, [&]<class Elements, class Codecs>() -> Kernel<DecodeLaunch> {
        return decodeKernel<Elements, Codecs>;
      });
  return launchShards(kernel, launch->call.layout.nShards, *launch, stream);
}

}  // namespace cinch::cuda
