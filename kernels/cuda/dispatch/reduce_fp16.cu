#include "kernels/cuda/dispatch/reduce_of_type.cuh"

namespace cinch::cuda {

template Kernel<ReduceLaunch> reduceKernelOf<ElementType::fp16>(const ReduceLaunch&);

}  // namespace cinch::cuda
