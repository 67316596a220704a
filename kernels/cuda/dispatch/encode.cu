#include "kernels/cuda/agent/encode_agent.cuh"
#include "kernels/cuda/dispatch/dispatch.cuh"
#include "kernels/cuda/dispatch/launch.h"

namespace cinch::cuda {
namespace {

template <class Elements, class Codecs, Kept kept>
__global__ void __launch_bounds__(kThreadsPerCta, ctasForEncode<Elements, Codecs, kept>())
    encodeKernel(const __grid_constant__ EncodeLaunch launch) {
  const bool isSkipped = static_cast<int64_t>(blockIdx.y) == launch.skipShard;
  if (isSkipped) return;
  EncodeAgent<Elements, Codecs, kept>(launch, ShardView(launch.call.layout, blockIdx.y)).run();
}

template <class Elements, class Codecs>
Kernel<EncodeLaunch> kernelFor(Kept kept) {
  if constexpr (!Codecs::kIsFixed)
    return encodeKernel<Elements, Codecs, Kept::anything>;
  else if (kept == Kept::codes)
    return encodeKernel<Elements, Codecs, Kept::codes>;
  else
    return encodeKernel<Elements, Codecs, Kept::residual>;
}

}  // namespace

int launchEncode(const EncodeLaunch* launch, void* stream) {
  if (!isCodedBuffer(launch->output)) return cudaErrorMisalignedAddress;
  const Kept kept = keptBy(*launch);
  const auto kernel = chooseKernel<Kernel<EncodeLaunch>>(
      launch->call, kept != Kept::anything,
      [&]<class Elements, class Codecs>() { return kernelFor<Elements, Codecs>(kept); });
  return launchShards(kernel, launch->call.layout.nShards, *launch, stream);
}

}  // namespace cinch::cuda
