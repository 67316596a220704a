#include "kernels/cuda/agent/encode_agent.cuh"
#include "kernels/cuda/dispatch/batch_kernels.cuh"
#include "kernels/cuda/dispatch/codec_launch.cuh"
#include "kernels/cuda/dispatch/encode_kernel.cuh"
#include "kernels/cuda/dispatch/launch.h"

namespace cinch::cuda {
namespace {

struct KernelOf {
  template <class Elements, class Codecs, Kept kept>
  Kernel<EncodeLaunch> operator()() const {
    if constexpr (std::is_same_v<Codecs, AdaptiveCodec>)
      return adaptiveEncodeKernel<Elements, kept>();
    else
      return encodeKernel<Elements, Codecs, kept>;
  }
};

template <Kept kept>
void addKernels(KernelList& kernels) {
  forEachOfOne<EncodedCodecs<kept>>(
      [&]<class Elements, class Codecs>() { add(kernels, encodeKernel<Elements, Codecs, kept>); });
  if constexpr (kept != Kept::codes)
    forEachType([&]<class Elements>() { add(kernels, adaptiveEncodeKernel<Elements, kept>()); });
}

}  // namespace

void listEncodeKernels(KernelList& kernels) {
  addKernels<Kept::codes>(kernels);
  addKernels<Kept::int8Residual>(kernels);
  add(kernels, encodeBatchKernel);
}

int launchEncode(const EncodeLaunch* launches, uint32_t n, void* stream) {
  return launchAll(std::span(launches, n), encodeBatchKernel, stream, KernelOf());
}

}  // namespace cinch::cuda
