// Kernels, as CUDA loads them where CUDA_MODULE_LOADING is not EAGER: each at its first use on a
// device. A load waits for all that the process has enqueued before, as cudaDeviceSynchronize does
// here, so a thread that uses a kernel for the first time behind work that waits for this very
// thread waits for ever, as on a GPU.
#pragma once

#include "emulator/include/cuda_runtime_api.h"

namespace cinch::cudart {

// Loads what is known by the address `kernel` for the calling thread's device.
// cudaErrorNoKernelImageForDevice where the device's compute capability is below 7.5, for which
// CUDA 13 makes no code.
cudaError_t loadKernel(const void* kernel);

}  // namespace cinch::cudart
