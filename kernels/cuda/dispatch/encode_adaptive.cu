#include "kernels/cuda/dispatch/encode_kernel.cuh"
#include "kernels/cuda/dispatch/instance.h"

namespace cinch::cuda {
namespace {

template <class Elements>
constexpr Kernel<EncodeLaunch> kAdaptive = encodeKernel<Elements, AdaptiveCodec, Kept::residual>;

}  // namespace

void listAdaptiveEncodeKernels(KernelList& kernels) {
  add(kernels, kAdaptive<Elements<ElementType::fp32>>);
  add(kernels, kAdaptive<Elements<ElementType::fp16>>);
  add(kernels, kAdaptive<Elements<ElementType::bf16>>);
}

Kernel<EncodeLaunch> adaptiveEncodeKernel(const CallContext& call) {
  return kernelOfType(call, [&]<class Elements>() { return kAdaptive<Elements>; });
}

}  // namespace cinch::cuda
