#include "kernels/cuda/dispatch/encode_adaptive.cuh"

namespace cinch::cuda {

template Kernel<EncodeLaunch>
adaptiveEncodeKernel<Elements<ElementType::fp32>, Kept::int8Residual>();
template Kernel<EncodeLaunch>
adaptiveEncodeKernel<Elements<ElementType::fp16>, Kept::int8Residual>();
template Kernel<EncodeLaunch>
adaptiveEncodeKernel<Elements<ElementType::bf16>, Kept::int8Residual>();

}  // namespace cinch::cuda
