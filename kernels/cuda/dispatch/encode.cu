#include "kernels/cuda/agent/encode_agent.cuh"
#include "kernels/cuda/dispatch/batch_kernels.cuh"
#include "kernels/cuda/dispatch/codec_launch.cuh"
#include "kernels/cuda/dispatch/encode_kernel.cuh"
#include "kernels/cuda/dispatch/launch.h"

namespace cinch::cuda {
namespace {

template <class Elements, class Codecs>
Kernel<EncodeLaunch> kernelFor(Kept kept) {
  if constexpr (!Codecs::kIsFixed)
    return encodeKernel<Elements, Codecs, Kept::anything>;
  else if (kept == Kept::codes)
    return encodeKernel<Elements, Codecs, Kept::codes>;
  else
    return encodeKernel<Elements, Codecs, Kept::residual>;
}

Kernel<EncodeLaunch> kernelFor(const EncodeLaunch& launch) {
  const Kept kept = keptBy(launch);
  if (kept == Kept::residual && isAdaptive(launch.call.layout))
    return adaptiveEncodeKernel(launch.call);
  return chooseKernel<Kernel<EncodeLaunch>>(
      launch.call, kept != Kept::anything,
      [&]<class Elements, class Codecs>() { return kernelFor<Elements, Codecs>(kept); });
}

}  // namespace

void listEncodeKernels(KernelList& kernels) {
  forEachPlainInstance([&]<class Elements, class Codecs>() {
    for (const Kept kept : {Kept::codes, Kept::residual})
      add(kernels, kernelFor<Elements, Codecs>(kept));
  });
  add(kernels, kernelFor<AnyElements, AnyCodec>(Kept::anything));
  add(kernels, encodeBatchKernel);
}

int launchEncode(const EncodeLaunch* launches, uint32_t n, void* stream) {
  return launchAll(std::span(launches, n), encodeBatchKernel, stream, [&](const auto& launch) {
    return launchShards(kernelFor(launch), launch, stream);
  });
}

}  // namespace cinch::cuda
