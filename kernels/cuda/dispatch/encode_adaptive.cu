#include "kernels/cuda/dispatch/encode_adaptive.cuh"

namespace cinch::cuda {

template Kernel<EncodeLaunch>
adaptiveEncodeKernel<Elements<ElementType::fp32>, Kept::fp32Residual>();
template Kernel<EncodeLaunch>
adaptiveEncodeKernel<Elements<ElementType::fp16>, Kept::fp32Residual>();
template Kernel<EncodeLaunch>
adaptiveEncodeKernel<Elements<ElementType::bf16>, Kept::fp32Residual>();

}  // namespace cinch::cuda
