#include "kernels/cuda/agent/reduce_agent.cuh"
#include "kernels/cuda/dispatch/batch_kernels.cuh"
#include "kernels/cuda/dispatch/codec_launch.cuh"
#include "kernels/cuda/dispatch/kernels.h"
#include "kernels/cuda/dispatch/launch.h"
#include "kernels/cuda/dispatch/reduce_kernel.cuh"

namespace cinch::cuda {
namespace {

Kernel<ReduceLaunch> kernelFor(const ReduceLaunch& launch) {
  if (!isKnown(launch.call)) return nullptr;
  const Kernel<ReduceLaunch> plain = isPlain(launch) ? plainReduceKernel(launch) : nullptr;
  return plain ? plain : reduceKernelOf<AnyElements, AnyCodec>(launch);
}

}  // namespace

void listReduceKernels(KernelList& kernels) {
  addReduceKernels<AnyElements, AnyCodec>(kernels);
  add(kernels, reduceBatchKernel);
}

int launchReduce(const ReduceLaunch* launches, uint32_t n, void* stream) {
  return launchAll(std::span(launches, n), reduceBatchKernel, stream, [&](const auto& launch) {
    return launchShards(kernelFor(launch), launch, stream);
  });
}

}  // namespace cinch::cuda
