#include "kernels/cuda/dispatch/encode_of_type.cuh"

namespace cinch::cuda {

template Kernel<EncodeLaunch> encodeKernelOf<ElementType::fp16>(uint8_t, Kept);

}  // namespace cinch::cuda
