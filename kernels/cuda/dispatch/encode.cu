#include "kernels/cuda/agent/encode_agent.cuh"
#include "kernels/cuda/dispatch/codec_launch.cuh"
#include "kernels/cuda/dispatch/encode_kernel.cuh"
#include "kernels/cuda/dispatch/instance.h"
#include "kernels/cuda/dispatch/launch.h"

namespace cinch::cuda {
namespace {

Kernel<EncodeLaunch> kernelFor(const EncodeLaunch& launch) {
  const Kept kept = keptBy(launch);
  const auto ofType = [&]<ElementType type>() {
    return encodeKernelOf<type>(launch.call.layout.codec.id, kept);
  };
  return chooseByType<Kernel<EncodeLaunch>>(launch.call, kept != Kept::anything, ofType,
                                            encodeKernel<AnyElements, AnyCodec, Kept::anything>);
}

}  // namespace

int launchEncode(const EncodeLaunch* launches, uint32_t n, void* stream) {
  return launchAll(std::span(launches, n), encodeBatchKernel, stream, [&](const auto& launch) {
    return launchShards(kernelFor(launch), launch, stream);
  });
}

}  // namespace cinch::cuda
